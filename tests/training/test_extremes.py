"""Extreme data and settings: a run works, or a sentence says why not."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from worlds import noise, noise_data

from lobsdice.algorithms import BC, LobsDICE
from lobsdice.data.episodes import Episodes
from lobsdice.data.prepare import Data, prepare
from lobsdice.data.spaces import Box
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import load_policy
from lobsdice.training.loggers import Pace
from lobsdice.training.train import sentence_without_memory, train


def scaled(*, column: slice, by: float) -> Data:
    """Data in which some features are very large or very small."""

    def scale(episodes: Episodes) -> Episodes:
        observations = episodes.observations.copy()
        observations[:, column] *= by
        return replace(episodes, observations=observations)

    expert, offline = scale(noise(40, seed=1)), scale(noise(80, seed=2))
    return prepare(expert, offline, labelled=expert)


def short(lengths: list[int], *, demonstrations: int) -> Data:
    """Data of episodes with these lengths, of which the first are demonstrations."""
    random = np.random.default_rng(0)

    def episodes(lengths: list[int]) -> Episodes:
        steps = sum(lengths)
        return Episodes.from_arrays(
            random.normal(size=(steps + len(lengths), 3)),
            lengths=lengths,
            actions=random.uniform(-1, 1, (steps, 2)),
            terminated=[True] * len(lengths),
        )

    expert, offline = episodes(lengths[:demonstrations]), episodes(lengths[demonstrations:])
    return prepare(expert, offline, labelled=expert)


DATAS = {
    "all features 1e30": scaled(column=slice(None), by=1e30),
    "all features 1e-30": scaled(column=slice(None), by=1e-30),
    "one feature 1e30": scaled(column=slice(1), by=1e30),
    "one feature 1e-30": scaled(column=slice(1), by=1e-30),
    "episodes of one row": short([1] * 12, demonstrations=4),
    "one demonstrated pair": short([1, 10, 10], demonstrations=1),
    "one pair each": short([1, 1], demonstrations=1),
}
SMALL = LobsDICE(width=8)
ALGORITHMS = {
    "defaults": SMALL,
    "alpha 0": replace(SMALL, alpha=0.0),
    "alpha 1e6": replace(SMALL, alpha=1e6),
    "learning rates of 10": replace(SMALL, policy_rate=10.0, nu_rate=10.0, ratio_rate=10.0),
}


def test_extreme_runs_work_or_say_that_they_failed(tmp_path):
    """All train in one program."""
    space = Box.of([-1, -1], [1, 1])
    datas = [replace(data, action_space=space) for data in DATAS.values()]
    run = train(list(ALGORITHMS.values()), datas, out=tmp_path / "run", steps=8, every=4)
    assert len(run.policies) == len(ALGORITHMS) * len(DATAS)
    for i, data in enumerate(datas * len(ALGORITHMS)):
        if i in run.failures:
            assert f"run {i} (seed 0) stopped at step" in run.failures[i]
            continue
        policy = load_policy(tmp_path / "run" / "policies" / f"last-{i}.safetensors")
        raw = data.init * data.normaliser.scale + data.normaliser.mean
        assert np.isfinite(policy(raw)).all()
        assert all(np.isfinite(list(row.values())).all() for row in run.rows if row["run"] == i)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"steps": 2**31}, "`steps` is 2147483648; it must be below 2"),
        ({"batch_size": 10**15}, "`batch_size` is 1000000000000000; it must be below 2"),
        ({"algorithm": BC(width=10**12)}, "`width` is 1000000000000; it must be below 2"),
        ({"seeds": 10**12}, "there are 1000000000000 seeds; there must be at most 10000"),
    ],
)
def test_numbers_that_no_device_can_count_to_are_a_sentence(arguments, sentence):
    with pytest.raises(LobsDICEError, match=sentence):
        train(**{"algorithm": BC(width=8), "data": noise_data()} | arguments)


def test_too_little_memory_is_a_sentence():
    sentence = r"not enough memory .* a smaller `batch_size`"
    with pytest.raises(LobsDICEError, match=sentence), sentence_without_memory():
        jnp.zeros(2**50, jnp.uint8).block_until_ready()
    with pytest.raises(ZeroDivisionError), sentence_without_memory():
        raise ZeroDivisionError


def test_a_clock_that_jumps_does_no_harm(monkeypatch):
    times, notes = iter([0.0, 1e15, -1e15, 5.0]), []
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    pace = Pace(lambda n, note: notes.append(note), left=2**31)
    for _ in range(4):
        pace(1)
    assert len(notes) == 4 and notes[1].endswith(" left)")
