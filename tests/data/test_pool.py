"""Logs in blocks: which are in the pool, how long, and what their steps are."""

from collections import Counter

import numpy as np
import pytest

from lobsdice.data import episodes
from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import read, write
from lobsdice.data.normaliser import fit_normaliser
from lobsdice.data.pool import UNIT, Blocks, divide
from lobsdice.data.prepare import prepare, transitions
from lobsdice.errors import LobsDICEError


@pytest.fixture(scope="module")
def logs() -> Episodes:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 300, 120)
    steps = int(lengths.sum())
    return Episodes.from_arrays(
        rng.normal(size=(steps + len(lengths), 3)),
        lengths=lengths,
        terminated=rng.random(len(lengths)) < 0.5,
        actions=rng.uniform(-1, 1, (steps, 2)),
    )


@pytest.fixture(scope="module")
def blocks(logs) -> Blocks:
    return Blocks(logs, fit_normaliser(logs), size=UNIT, slots=6, fresh=2)


def test_steps_in_the_pool_are_those_of_the_logs(logs, blocks):
    everything = transitions(logs, normaliser=blocks.normaliser)
    for version in (0, 1, 7):
        number, pool = blocks.numbers(version), blocks.pool(version)
        found, wanted = pool.take(np.arange(pool.size)), everything.take(number)
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(x, y)
        later, known = pool.after_next(np.arange(pool.size))
        wanted, there = everything.after_next(number)
        cut = np.arange(pool.size) % UNIT == UNIT - 1  # what follows a block is not known
        np.testing.assert_array_equal(known, there & ~cut)
        np.testing.assert_array_equal(later[known], wanted[known])


def test_changes_lead_from_pool_to_pool(blocks):
    held = blocks.held(0)
    for version in range(1, 12):
        slot, fresh = blocks.change(version)
        held[slot : slot + 2] = blocks.held(version)[slot : slot + 2]
        np.testing.assert_array_equal(held, blocks.held(version))
        np.testing.assert_array_equal(fresh.s, blocks.load(held[slot : slot + 2]).s)


def test_every_block_is_in_the_pool_equally_long(blocks):
    """Over laps of the random order. So every step is drawn equally often in the long run."""
    laps = 4
    changes = laps * blocks.count // blocks.fresh
    start = blocks.slots // blocks.fresh  # the first pool is there from the beginning
    placed = [blocks.held(v)[blocks.change(v)[0] :][:2] for v in range(start, start + changes)]
    counts = Counter(np.concatenate(placed).tolist())
    assert len(counts) == blocks.count and {*counts.values()} <= {laps - 1, laps, laps + 1}


def test_held_out_places_are_the_same_in_the_pool_and_in_the_logs(blocks):
    np.testing.assert_array_equal(np.arange(blocks.slots * UNIT) % UNIT, blocks.numbers(3) % UNIT)


@pytest.mark.parametrize(
    ("steps", "size", "slots", "fresh"),
    [(12_000, UNIT, 22, 11), (600_000, 2 * UNIT, 582, 97), (10**7, 4 * UNIT, 4880, 488)],
)
def test_a_pool_has_whole_blocks_of_which_a_tenth_changes_or_many(logs, steps, size, slots, fresh):
    found = divide(logs, fit_normaliser(logs), steps)
    assert (found.size, found.slots, found.fresh) == (size, slots, fresh)


def test_a_pool_has_at_least_two_blocks(logs):
    with pytest.raises(LobsDICEError, match="at least 1024 steps"):
        divide(logs, fit_normaliser(logs), 500)


def test_pairs_in_blocks_are_all_pairs_in_order(logs, monkeypatch):
    monkeypatch.setattr(episodes, "PAIRS", 100)
    found = np.concatenate(list(logs.pair_blocks()))
    np.testing.assert_array_equal(found, transitions(logs).pairs)


def test_columns_on_the_disk_are_prepared_like_data_in_memory(logs, tmp_path):
    write(tmp_path / "logs.columns", logs)
    mapped = read(tmp_path / "logs.columns")
    assert isinstance(mapped.observations.base, np.memmap) and mapped.facts is not None
    fitted, stated = fit_normaliser(logs), fit_normaliser(mapped)
    np.testing.assert_allclose(stated.mean, fitted.mean, atol=1e-6)
    np.testing.assert_allclose(stated.scale, fitted.scale, rtol=1e-6)
    expert = logs.select([0]).without_actions()
    with pytest.raises(LobsDICEError, match=r"demonstrated pairs .* occur in the logs"):
        prepare(expert, mapped, pool=2048)
    data = prepare(expert, mapped, pool=2048, allow_leak=True)
    assert data.blocks is not None and data.offline.size == 2048
    everything = prepare(expert, mapped, allow_leak=True)
    number = data.blocks.numbers(0)
    for name in ("source", "episode", "ended"):
        np.testing.assert_array_equal(getattr(data, name), getattr(everything, name)[number])
    np.testing.assert_array_equal(data.init, everything.init)
    # In a pool of 2048 steps, each of the kept ends counts as the share of the logs that is there.
    assert data.end_weight == pytest.approx(2048 / logs.steps)
