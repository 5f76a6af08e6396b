"""What is said about the ends of episodes, in a world whose goal and pits are known."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lobsdice.data.ends import compare_ends, describe_ends, end_warnings
from lobsdice.data.episodes import Episodes, concatenate
from lobsdice.environments.tasks.task import load
from lobsdice.environments.worlds.grid import table
from lobsdice.errors import LobsDICEError

GOAL, PIT = (3.0, 3.0), (3.0, -3.0)


def walks(count: int, *, to=GOAL, seed: int, length: int = 20, ended: bool = True) -> Episodes:
    """Noisy straight walks from near the origin to near a place, each a little longer."""
    random = np.random.default_rng(seed)
    lengths = length + np.arange(count) % 7
    parts = [
        np.linspace(0, 1, n + 1)[:, None] * to + 0.1 * random.normal(size=(n + 1, 2))
        for n in lengths
    ]
    return Episodes.from_arrays(
        np.concatenate(parts),
        lengths=lengths,
        terminated=np.full(count, ended),
        actions=random.uniform(-1, 1, (lengths.sum(), 1)),
    )


def unmarked(episodes: Episodes) -> Episodes:
    return replace(episodes, terminated=np.zeros(len(episodes), bool))


@pytest.fixture(scope="module")
def demos() -> Episodes:
    return walks(5, seed=0).without_actions()


@pytest.fixture(scope="module")
def good() -> Episodes:
    return walks(20, seed=1)


@pytest.fixture(scope="module")
def bad() -> Episodes:
    """Thirty walks into the pit, and thirty that stop halfway to the goal, before anything ends."""
    halfway = walks(30, to=(1.5, 1.5), seed=3, ended=False)
    return concatenate([walks(30, to=PIT, seed=2), halfway])


@pytest.fixture(scope="module")
def logs(good, bad) -> Episodes:
    return concatenate([good, bad])


def test_a_sentence_counts_the_ends_of_both(demos, logs):
    assert describe_ends(demos, logs) == (
        "all 5 demonstrations terminated; 50 of 80 logged episodes terminated, 30 were truncated"
    )
    known = replace(logs, success=np.repeat([1, 0, -1], [20, 30, 30]))
    assert describe_ends(unmarked(demos).first(1), known) == (
        "the only demonstration was truncated; 50 of 80 logged episodes terminated, 30 were "
        "truncated (20 succeeded, 30 failed)"
    )


def test_ends_at_goals_and_pits_are_not_suspicious(demos, logs):
    found = compare_ends(demos, logs)
    assert (found.warnings, found.remarks, found.far_ends) == ([], [], 0)
    assert "restart" in found.reading
    assert found.expert == {"terminated": 5, "truncated": 0, "succeeded": None, "failed": None}


def test_without_ends_the_reading_is_that_nothing_changes(demos, logs):
    found = compare_ends(unmarked(demos), unmarked(logs))
    assert (found.warnings, found.remarks, found.far_ends) == ([], [], None)
    assert "no episode has an end" in found.reading


def test_logs_that_never_end_are_a_warning(demos, logs, bad):
    (found,) = end_warnings(demos, unmarked(logs))
    assert "no logged episode does; yet logged episodes stop where demonstrations end" in found
    (found,) = end_warnings(demos, unmarked(bad))
    assert "the logs then do not show what follows an end" in found
    (found,) = end_warnings(demos, replace(unmarked(logs), unread=("done", "success")))
    assert "(column 'done' or 'success' was not read as `terminated_column`)" in found


def test_demonstrations_that_never_end_are_suspicious_only_where_logs_end(demos, logs, bad):
    (found,) = end_warnings(unmarked(demos), logs)
    assert "demonstrations stop where logged episodes terminate: mark those" in found
    harmless = compare_ends(unmarked(demos), bad)
    assert not harmless.warnings
    assert "right if only failures end the task" in harmless.remarks[0]
    (found,) = end_warnings(replace(unmarked(demos), unread=("done",)), bad)
    assert found == (
        "logged episodes terminate, but no demonstration does (column 'done' was not read as "
        "`terminated_column`)"
    )


def test_ends_that_no_logged_episode_reaches_are_a_warning(demos, bad):
    found = compare_ends(demos, bad)
    assert found.far_ends == 5
    assert found.warnings == [
        "demonstrations end where no logged episode terminates (5 of 5); no logged episode comes "
        "near"
    ]


def test_ends_that_logs_pass_or_that_are_not_marked_are_told_apart(demos, good, bad):
    (found,) = end_warnings(demos, concatenate([unmarked(good), bad]))
    assert "logged episodes that count as truncated stop there: mark those" in found
    through = walks(12, to=(6.0, 6.0), seed=4, length=40, ended=False)
    (found,) = end_warnings(demos, concatenate([through, bad]))
    assert found.endswith("logged episodes come there, but go on")


def test_a_lone_end_far_away_covers_nothing_around_it(demos, bad):
    lone = walks(1, to=(9.0, 3.0), seed=5)
    assert compare_ends(demos, concatenate([lone, bad])).far_ends == 5


def test_many_terminations_at_the_greatest_length_look_like_a_time_limit(demos, logs):
    ended = replace(logs, terminated=np.ones(len(logs), bool))
    (found,) = end_warnings(demos, ended)
    assert "10 of 80 logged episodes are marked as terminated after exactly 26 steps" in found
    assert "set `time_limit` to 26, so that they count as truncated" in found
    assert "`time_limit`" in found
    equal = concatenate([logs.select([20])] * 20)  # all lengths are equal: nothing can be told
    assert not any("time_limit" in sentence for sentence in end_warnings(demos, equal))


def test_long_episodes_that_all_end_at_one_length_look_like_a_time_limit():
    found = [
        sentence
        for sentence in end_warnings(all_ended(5, 100, 0), all_ended(9, 100, 1))
        if "time_limit" in sentence
    ]
    assert found and "9 of 9 logged episodes are marked as terminated after exactly" in found[-1]
    short = end_warnings(all_ended(5, 99, 0), all_ended(9, 99, 1))
    assert not any("time_limit" in sentence for sentence in short)


def all_ended(count: int, steps: int, seed: int) -> Episodes:
    """Episodes of one length that all terminated."""
    rng = np.random.default_rng(seed)
    return Episodes.from_arrays(
        rng.normal(size=(count * (steps + 1), 2)),
        lengths=[steps] * count,
        terminated=[True] * count,
        actions=rng.uniform(-1, 1, (count * steps, 1)),
    )


def test_failed_demonstrations_are_a_warning(demos, logs):
    failed = replace(demos, success=np.array([1, 1, 0, 1, -1]))
    assert end_warnings(failed, logs) == ["1 of 5 demonstrations failed"]


def test_one_end_in_a_small_world_is_the_same_for_all():
    """In a row of five cells, the goal is the last cell and the pit is the first."""

    def episodes(*paths: list[int]) -> Episodes:
        return Episodes.from_arrays(
            np.concatenate(paths)[:, None],
            lengths=[len(path) - 1 for path in paths],
            terminated=[path[-1] in (0, 4) for path in paths],
        )

    demos = episodes([2, 3, 4], [1, 2, 3, 4])
    moves = [2, 1], [1, 0], [3, 2], [2, 3]
    assert compare_ends(demos, episodes(*moves, [3, 4])).far_ends == 0
    assert compare_ends(demos, episodes(*moves)).far_ends == 2


def test_the_page_gives_the_shares_of_its_picture():
    root = Path(__file__).parents[2]
    script = runpy.run_path(str(root / "docs/pictures/ends.py"), run_name="picture")
    task, world = load("grid", workers=1), table()
    shares = {
        terminal: script["chance_of_goal"](
            world, script["learn"](task, world, terminal), task.spec.max_steps
        )
        for terminal in ("keep", "restart")
    }
    text = " ".join((root / "docs/ends.md").read_text().split())
    assert (
        f"The goal is reached in {100 * shares['keep']:.1f} % of episodes with `keep`, and in "
        f"{100 * shares['restart']:.1f} % with `restart`"
    ) in text


def test_other_features_are_an_error(demos):
    wide = Episodes.from_arrays(np.zeros((3, 4)), lengths=[2])
    with pytest.raises(LobsDICEError, match="observations of 2 numbers"):
        end_warnings(demos, wide)


def test_logs_in_which_no_episode_succeeded_are_warned_of(demos, bad, logs):
    none = replace(bad, success=np.zeros(60, np.int64))
    said = (
        "no logged episode succeeded (60 failed): a policy can hardly learn from them to do what "
        "was demonstrated"
    )
    assert said in end_warnings(demos, none)
    assert said in compare_ends(demos, none.first(5), whole=none).warnings
    some = replace(bad, success=np.repeat([0, -1], [40, 20]))
    assert any("(40 failed, of 20 it is not known)" in found for found in end_warnings(demos, some))


def test_one_success_or_many_unknown_episodes_are_no_lack_of_success(demos, bad):
    for success in ([1] + [0] * 59, [0] * 10 + [-1] * 50, [-1] * 60):
        known = replace(bad, success=np.array(success))
        assert not any("succeeded" in said for said in end_warnings(demos, known))
