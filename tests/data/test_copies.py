"""Recordings that were given twice, as files of other digits."""

from dataclasses import replace

import numpy as np
import pytest

from lobsdice.data import copies
from lobsdice.data.audit import audit
from lobsdice.data.audit.glance import glance
from lobsdice.data.copies import copied, given_twice, shown_twice, without_copies
from lobsdice.data.ends import end_warnings
from lobsdice.data.episodes import Episodes, concatenate, mixture
from lobsdice.data.recordings import Preparation
from lobsdice.errors import DataWarning


def loops(count: int, *, seed: int, length: int = 40, size: float = 1.0) -> Episodes:
    """Noisy loops, with an offset and other units."""
    random = np.random.default_rng(seed)
    time = random.uniform(0, 2 * np.pi, (count, 1)) + np.arange(length + 1) * 0.2
    rows = size * np.sin(time[..., None] + np.arange(2)) + 0.05 * random.normal(
        size=(*time.shape, 2)
    )
    return Episodes.from_arrays(
        (1000 + 300 * rows).reshape(-1, 2),
        lengths=[length] * count,
        terminated=[True] * count,
        actions=random.uniform(-1, 1, (count * length, 1)),
    )


def rounded(episodes: Episodes, decimals: int = 0) -> Episodes:
    return replace(episodes, observations=np.round(episodes.observations, decimals))


@pytest.fixture(scope="module")
def logs() -> Episodes:
    return loops(30, seed=0)


def test_each_copy_is_of_the_first_of_its_kind(logs):
    again = concatenate([logs, rounded(logs), rounded(logs, 1).select([3, 4]), logs.select([7])])
    wanted = [*range(30), *range(30), 3, 4, 7]
    assert copied(again).tolist() == wanted
    kept, numbers = without_copies(again)
    assert numbers.tolist() == list(range(30))
    np.testing.assert_array_equal(kept.observations, logs.observations)
    assert without_copies(logs)[0] is logs


def test_episodes_that_are_short_or_at_rest_or_a_little_apart_are_no_copies(logs):
    short = loops(30, seed=1, length=9)
    rest = loops(30, seed=1, size=0.0)
    rest = replace(rest, observations=1000 + 0.01 * (rest.observations - 1000))
    apart = replace(logs, observations=logs.observations + np.float32(10.0))
    for others in ([short, rounded(short)], [rest, rounded(rest)], [apart]):
        together = concatenate([logs, *others])
        assert copied(together).tolist() == list(range(len(together)))


def test_files_that_hold_the_same_are_named(logs):
    both = mixture({"plant": logs, "more": loops(5, seed=1), "export": rounded(logs)})
    (said,) = given_twice(both)
    assert said.startswith("30 of 30 episodes of export are also in plant, up to rounding")
    assert given_twice(logs) == given_twice(mixture({"a": logs, "b": loops(9, seed=2)})) == []


def test_demonstrations_that_are_in_the_logs_with_other_digits_are_named(logs):
    (said,) = shown_twice(rounded(logs).select([4, 8]), logs)
    assert said.startswith("2 of 2 demonstrations are also in the logs") and "4, 8" in said
    assert shown_twice(loops(4, seed=3), logs) == []


@pytest.mark.parametrize("count", [1, 2])
def test_few_points_are_compared_one_by_one_with_the_outcome_of_the_tree(count, monkeypatch):
    random = np.random.default_rng(0)
    points = random.integers(0, 5, (60, 3)).astype(np.float32)
    points += random.uniform(-0.015, 0.015, points.shape).astype(np.float32)
    queries = points[::2] + np.float32(0.001)
    few = copies._nearest(queries, points, count)
    monkeypatch.setattr(copies, "FEW", 0)
    np.testing.assert_array_equal(few, copies._nearest(queries, points, count))
    assert (few[:, 0] >= 0).all() and (count == 1 or len(set(few[:, 1] >= 0)) == 2)


def test_a_verdict_is_the_same_if_files_are_given_twice(logs):
    demos, both = loops(5, seed=1), mixture({"plant": logs, "export": rounded(logs)})
    once, twice = audit(demos, logs), audit(demos, both)
    assert once.verdict == twice.verdict == "covered"
    assert twice.uncovered_share == pytest.approx(once.uncovered_share, abs=0.02)
    assert twice.warns and not once.warns and len(twice.copies) == 1
    assert glance(demos, both).verdict == "covered" and end_warnings(demos, both) == []
    with pytest.warns(DataWarning, match="30 of 30 episodes of export are also in plant"):
        Preparation()(demos, both)


def test_the_episodes_nearest_to_a_demonstration_keep_their_numbers(logs):
    demos = loops(2, seed=1)
    both = concatenate([logs.select([0]), rounded(logs)])
    wanted = {support.episode for support in audit(demos, rounded(logs)).closest}
    found = {support.episode for support in audit(demos, both).closest}
    assert found == {0 if number == 0 else number + 1 for number in wanted}
