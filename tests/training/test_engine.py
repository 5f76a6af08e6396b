"""The training loop's parts: steps, the average of weights, cooling, failing."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import noise_data

from lobsdice.algorithms.base import Defaults, hyperparameters
from lobsdice.training.draws import draw_batch, pack
from lobsdice.training.engine import ADAM, Member, Options, State, step, watched
from lobsdice.training.fleet import Fleet, iterate

DATA = noise_data()


class Nets(NamedTuple):
    policy: Any


@hyperparameters
class Line(Defaults):
    """A loss that falls at a given slope; its logarithm fails below zero."""

    slope: float = 1.0
    rate: float = 0.1
    penalty_every: int = 1

    def init(self, key, state_size, space):
        return Nets(jnp.float32(1.0))

    def loss(self, nets, batch, key, *, penalised):
        log = jnp.log(nets.policy)
        return self.slope * nets.policy, {"loss": self.slope * nets.policy, "log": log}

    def rates(self, step):
        return Nets(self.rate)


@hyperparameters
class Counted(Line):
    """Tells for how many steps one is penalised."""

    def loss(self, nets, batch, key, *, penalised):
        return nets.policy, {"penalised": jnp.float32(penalised)}


def take(steps: int, algorithm=Line(), **options) -> list[State]:  # noqa: B008
    """The states of a run, step by step."""
    nets = Nets(jnp.float32(1.0))
    states = [State(nets, ADAM.init(nets), nets.policy, jnp.int32(-1), jnp.int32(0))]
    pool, slices = pack([DATA])
    key = jax.random.key(0)
    batch = draw_batch(key, pool, jax.tree.map(lambda x: x[0], slices), 1)
    settings = Options(steps=steps, **options)
    for i in range(steps):
        now = jnp.int32(i)
        state, _ = step(algorithm, settings, states[-1], batch, key, now, penalised=1)
        states.append(state)
    return states


def weights(states) -> np.ndarray:
    return np.array([float(state.nets.policy) for state in states])


def test_steps_are_those_of_adam():
    """With a constant gradient each of Adam's steps is the learning rate."""
    np.testing.assert_allclose(weights(take(4)), 1 - 0.1 * np.arange(5), rtol=1e-5)
    small = take(4, Line(slope=0.01))
    np.testing.assert_allclose(weights(small), 1 - 0.1 * np.arange(5), rtol=1e-4)


def test_cooling_takes_the_rate_to_zero_over_the_last_part():
    sizes = -np.diff(weights(take(8, Line(rate=0.01), cooldown=0.5)))
    np.testing.assert_allclose(sizes, 0.01 * np.array([1, 1, 1, 1, 1, 0.75, 0.5, 0.25]), rtol=1e-3)


def test_the_average_forgets_fast_at_first_and_slowly_later():
    states = take(8, Line(rate=0.01), average=0.25)
    average = 1.0
    for i, weight in enumerate(weights(states)[1:]):
        decay = min(0.25, (1 + i) / (10 + i))
        average = decay * average + (1 - decay) * weight
        assert float(states[i + 1].average) == pytest.approx(average, rel=1e-5)


def blamed(state: State) -> list[str]:
    """What was not finite where the only run of a fleet failed."""
    names = watched({"loss": 0, "log": 0})
    return [name for i, name in enumerate(names) if int(state.failed_in[0]) >> i & 1]


@pytest.mark.parametrize("chunk", [1, 5])
def test_a_run_that_fails_stays_where_its_chunk_began(chunk):
    """The logarithm of a negative weight is the first number that is not finite."""
    first = int(np.flatnonzero(weights(take(15)) < 0)[0])  # the state with which step `first` fails
    fleet = Fleet((Member(Line(), options=Options(steps=15)),), (DATA,))
    states = [now.state for now in iterate(fleet, every=chunk)]
    found = np.array([float(state.nets.policy[0]) for state in states])
    last, begun = states[-1], first // chunk
    assert int(last.failed_at[0]) == first
    assert blamed(last) == ["log"]
    np.testing.assert_allclose(
        found[:begun], weights(take(15))[chunk : first + 1 : chunk], atol=1e-7
    )
    assert (found[begun:] == found[begun - 1]).all()
    assert all(int(state.failed_at[0]) == -1 for state in states[:begun])
    assert float(last.average[0]) == float(states[begun - 1].average[0])


def test_a_weight_that_overflows_in_the_last_step_is_noticed():
    """No loss is taken of it any more; before, it grows from 1 to 3e38, which is finite."""
    algorithm = Line(slope=-1.0, rate=3e38)
    assert np.isinf(weights(take(2, algorithm))).tolist() == [False, False, True]
    fleet = Fleet((Member(algorithm, options=Options(steps=2)),), (DATA,))
    (now,) = iterate(fleet, every=2)
    assert (int(now.state.failed_at[0]), blamed(now.state)) == (1, ["weights"])
    assert float(now.state.nets.policy[0]) == float(now.state.average[0]) == 1.0


def test_every_step_is_penalised_once_however_steps_fall_into_blocks():
    fleet = Fleet((Member(Counted(penalty_every=4), options=Options(steps=10)),), (DATA,))
    whole, rest = iterate(fleet, every=8)
    assert (float(whole.metrics["penalised"][0]), float(rest.metrics["penalised"][0])) == (4, 2)


def test_training_ends_early_once_all_runs_have_failed():
    fleet = Fleet((Member(Line(), options=Options(steps=4000)),), (DATA,))
    now = next(iterate(fleet, every=4000))
    assert 0 <= int(now.state.failed_at[0]) < now.step < 4000
