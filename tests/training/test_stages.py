"""The two stages of a learned ratio: their order, lengths, losses and data."""

from typing import Any

import jax
import numpy as np
import pytest
from worlds import noise_data

from lobsdice.algorithms.stage import Stage
from lobsdice.rewards.kinds import Ratio
from lobsdice.training.engine import Member, State
from lobsdice.training.stages import learn_ratios

DATA = noise_data()


class Calls:
    """Stands for the training loop: notes what it is given, and returns fresh discriminators."""

    def __init__(self):
        self.stages: list[Stage] = []
        self.steps: list[int] = []
        self.datas: list[Any] = []
        self.nets: list[Any] = []

    def __call__(self, members, datas, on_steps):
        member: Member = members[0]
        stage: Any = member.algorithm
        self.stages.append(stage)
        self.steps.append(member.options.steps)
        self.datas.append(datas[member.data])
        key = jax.random.key(len(self.stages))
        self.nets.append(stage.init(key, DATA.state_size, DATA.action_space))
        nets: Any = jax.tree.map(lambda x: x[None], self.nets[-1])
        return State(nets, None, None, *jax.numpy.zeros((2, 1), int))


def learned(kind: Ratio):
    calls = Calls()
    (found,) = learn_ratios(kind, [0], [0], [DATA], calls)
    return calls, found.steps


def logits(nets, s):
    return np.asarray(nets.policy(jax.numpy.asarray(s)), np.float32)


def test_a_fifth_of_the_steps_is_for_a_mixture_and_the_rest_tells_negatives_from_the_expert():
    """10,000 and 40,000 steps in TAILO's code, with a new discriminator in the second stage."""
    kind = Ratio(pairs=False, unlabelled=True, steps=50_000, width=8)
    calls, found = learned(kind)
    assert [stage.unlabelled for stage in calls.stages] == [True, False]
    assert [(stage.on_pairs, stage.width) for stage in calls.stages] == [(False, 8)] * 2
    assert calls.steps == [10_000, 40_000]
    assert calls.datas[0] is DATA
    first, second = (logits(nets, DATA.offline.s) for nets in calls.nets)
    # Ten rows an episode: those with a mean strictly below the 0.8 quantile are negatives.
    mean = first.reshape(-1, 10).mean(axis=1)
    rest = np.repeat(mean < np.quantile(mean, 0.8), 10)
    assert 0 < rest.sum() < 80
    np.testing.assert_array_equal(calls.datas[1].offline.s, DATA.offline.s[rest])
    np.testing.assert_allclose(found, second, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pairs", [True, False])
def test_without_unlabelled_rows_there_is_one_stage_of_all_steps(pairs):
    calls, _ = learned(Ratio(pairs=pairs, unlabelled=False, steps=70, width=8))
    assert [(stage.unlabelled, stage.on_pairs) for stage in calls.stages] == [(False, pairs)]
    assert calls.steps == [70] and calls.datas == [DATA]
