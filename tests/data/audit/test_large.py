"""Audits of logs that pass by in blocks."""

from dataclasses import replace

import numpy as np
import pytest

from lobsdice.data.audit import audit
from lobsdice.data.audit.coverage import distances, groups, own_group, streamed_distances
from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import read
from lobsdice.data.formats.mapped import write
from lobsdice.data.logged import LoggedPairs
from lobsdice.data.neighbours import SPARSE
from lobsdice.data.normaliser import fit_normaliser
from lobsdice.data.prepare import observations


def wandering(count: int, seed: int, *, length: int = 50, digits: int | None = None) -> Episodes:
    """Random walks; with rounded numbers, they come to the same places again and again."""
    random = np.random.default_rng(seed)
    states = random.normal(size=(count, length + 1, 2)).cumsum(axis=1).reshape(-1, 2)
    states = states if digits is None else np.round(states, digits)
    actions = random.uniform(-1, 1, (count * length, 1))
    return Episodes.from_arrays(states, lengths=[length] * count, actions=actions)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr("lobsdice.data.episodes.PAIRS", 101)
    monkeypatch.setattr("lobsdice.data.neighbours.POINTS", 64)
    monkeypatch.setattr("lobsdice.data.neighbours.QUERIES", 48)


@pytest.mark.parametrize("count", [1, 3, 7])
def test_the_own_group_of_a_step_is_that_of_its_number(count):
    episodes = wandering(count, 0, length=11)
    group = groups(episodes)
    own = own_group(episodes, np.arange(episodes.steps))
    for step, (first, end) in enumerate(own.tolist()):
        assert set(np.flatnonzero(group == group[step])) == set(range(first, end))


def test_logs_in_blocks_give_the_numbers_of_logs_in_memory():
    expert, offline = wandering(3, 1), wandering(30, 2)
    normaliser = fit_normaliser(offline)
    logged = LoggedPairs(offline, normaliser)
    ours, theirs = (observations(e, normaliser=normaliser).pairs for e in (expert, offline))
    np.testing.assert_array_equal(np.concatenate([*logged.blocks()]), theirs)
    some = np.array([0, 49, 50, 1499])
    np.testing.assert_array_equal(logged.take(some), theirs[some])
    passed = []
    found = streamed_distances(ours, groups(expert), logged, 2, passed.append)
    assert sum(passed) == 2 * offline.steps
    for mine, known in zip(
        found, distances(ours, groups(expert), theirs, groups(offline), 2), strict=True
    ):
        np.testing.assert_allclose(mine, known, rtol=1e-6)


def test_spacings_of_repeated_pairs_are_those_of_brute_force():
    """The spacing at a pair is its distance to the nearest other pair of another episode."""
    expert, offline = wandering(6, 1, digits=0), wandering(20, 2, length=20, digits=0)
    normaliser = fit_normaliser(offline)
    ours, theirs = (observations(e, normaliser=normaliser).pairs for e in (expert, offline))
    logged = LoggedPairs(offline, normaliser)
    distance, neighbour, spacing, sparse = streamed_distances(ours, groups(expert), logged)
    apart = np.linalg.norm(ours[:, None].astype(float) - theirs[None], axis=2)
    np.testing.assert_allclose(distance, apart.min(axis=1), atol=1e-6)
    between = np.linalg.norm(theirs[:, None].astype(float) - theirs[None], axis=2)
    group = groups(offline)
    between[(group[:, None] == group[None]) | (between == 0)] = np.inf
    alone = between.min(axis=1)
    np.testing.assert_allclose(spacing, np.minimum(alone[neighbour], sparse), rtol=1e-6)
    first = np.unique(theirs, axis=0, return_index=True)[1]
    assert sparse <= np.quantile(alone[first], SPARSE, method="higher") * (1 + 1e-6)


def test_an_audit_of_columns_on_the_disk_covers_what_one_in_memory_does(tmp_path, monkeypatch):
    expert, offline = wandering(5, 1), wandering(40, 2)
    expert = replace(expert, observations=expert.observations + np.array([0, 2], np.float32))
    offline = replace(offline, rewards=np.ones(offline.steps, np.float32))
    whole = audit(expert, offline)
    monkeypatch.setattr("lobsdice.data.audit.WHOLE", 800)
    write(tmp_path / "logs.columns", offline)
    found = audit(expert, read(tmp_path / "logs.columns"))
    assert found.verdict == whole.verdict
    assert found.uncovered_share == whole.uncovered_share
    np.testing.assert_array_equal(found.coverage.neighbour, whole.coverage.neighbour)
    assert found.closest == whole.closest
    assert (found.ends.summary, found.ends.offline) == (whole.ends.summary, whole.ends.offline)
    assert found.offline["returns"] == whole.offline["returns"]
    assert 0 < found.discrimination.lookalikes < 2 * whole.discrimination.lookalikes
