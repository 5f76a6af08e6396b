"""Training from logs that are not all in memory: the pool of each step, and resuming."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from worlds import noise

from lobsdice.algorithms import BC, LobsDICE
from lobsdice.data.prepare import Data, prepare
from lobsdice.training import stream as module
from lobsdice.training.draws import end_counts, pack
from lobsdice.training.engine import Options
from lobsdice.training.fleet import in_background, iterate, make_fleet
from lobsdice.training.folder import fingerprint
from lobsdice.training.stream import Stream


def pooled(seed: int, pool: int | None = 2048) -> Data:
    offline = replace(noise(8000, seed=seed), terminated=np.arange(800) % 2 == 0)
    return prepare(noise(40, seed=9), offline, pool=pool)


@pytest.fixture(scope="module")
def datas() -> list[Data]:
    return [pooled(seed) for seed in range(2)]


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """The pool changes every 8 steps."""
    monkeypatch.setattr(module, "EVERY", 8)


@pytest.mark.parametrize("begin", [0, 24])
def test_the_pool_of_a_step_is_that_of_its_number(datas, begin):
    before = [data.offline.observations.copy() for data in datas]
    stream = Stream(datas, begin, pack, lambda pool: pool, in_background)
    for step in (begin, begin + 8, begin + 17, begin + 40):
        pool = jax.tree.map(np.asarray, stream.at(step))
        for i, data in enumerate(datas):
            assert data.blocks is not None
            number = int(stream.slices.start[i, 2]) + np.arange(data.offline.size)
            found, wanted = pool.offline.take(number), data.blocks.pool(step // 8)
            for x, y in zip(found, wanted.take(np.arange(wanted.size)), strict=True):
                np.testing.assert_array_equal(x, y)
    for data, table in zip(datas, before, strict=True):  # the pool is a copy
        np.testing.assert_array_equal(data.offline.observations, table)


def test_a_run_that_is_resumed_sees_the_same_pool(datas):
    fleet = make_fleet(BC(width=8), datas[0], [0, 1], Options(steps=48, batch_size=16))
    whole = list(iterate(fleet, every=24))
    again = list(iterate(fleet, every=24, begin=(24, whole[0].state)))
    for x, y in zip(*map(jax.tree.leaves, (whole[1].state, again[0].state)), strict=True):
        np.testing.assert_array_equal(x, y)
    frozen = make_fleet(BC(width=8), replace(datas[0], blocks=None), 2, fleet.members[0].options)
    still = list(iterate(frozen, every=24))  # the pool never changes
    assert float(still[1].metrics["policy_loss"][0]) != float(whole[1].metrics["policy_loss"][0])


@pytest.mark.parametrize("streams", [True, False])
def test_rows_are_drawn_by_weight_again_if_the_pool_changes(datas, streams):
    data = datas[0] if streams else replace(datas[0], blocks=None)
    fleet = make_fleet(LobsDICE(width=4), data, 1, Options(steps=24, batch_size=16))
    first, second, third = (now.state for now in iterate(fleet, every=8))
    assert bool((first.drawn == second.drawn).all()) != streams
    (again,) = iterate(fleet, every=8, begin=(16, second))
    np.testing.assert_array_equal(jax.device_get(again.state.drawn), jax.device_get(third.drawn))


def test_ends_have_the_share_that_they_have_in_all_logs(datas):
    steps, ends, weight = end_counts(datas[0])[2]
    whole = end_counts(pooled(0, None))[2]
    assert (steps, ends) == (2048, 400) and whole == (8000, 400, 1.0)
    assert weight * ends / (weight * ends + steps) == pytest.approx(400 / 8400)


def test_the_fingerprint_sees_the_pool(datas):
    prints = {fingerprint(data) for data in (datas[0], pooled(0, None), pooled(0, 3072))}
    assert len(prints) == 3 and fingerprint(pooled(0)) in prints
