"""The data of a trial: draws of each seed, and fragments."""

from dataclasses import replace

import numpy as np
import pytest
from worlds import noise

from lobsdice.data.episodes import Episodes
from lobsdice.environments.tasks.table import SOURCES, TASKS
from lobsdice.experiments.control.data import cut, draw, make_data, wanted
from lobsdice.experiments.control.grid import Grid, Trial

USUAL = [Trial("lobsdice", "hopper", (100, 500, 500), seed) for seed in range(5)]
PLENTY: dict[str, int] = {source: 10_000 for source in SOURCES}


def test_no_two_seeds_share_a_demonstration_and_none_is_in_its_own_logs():
    shown, logged = zip(*(draw(trial, PLENTY) for trial in USUAL), strict=True)
    assert sorted(np.concatenate(shown).tolist()) == list(range(25))
    for mine, logs in zip(shown, logged, strict=True):
        assert not set(mine) & set(logs["expert"])
        assert {s: len(set(n)) for s, n in logs.items()} == {
            "expert": 100,
            "medium": 500,
            "random": 500,
        }


def test_two_seeds_share_half_of_their_logs_and_a_seed_always_has_the_same():
    (_, first), (_, second) = (draw(trial, PLENTY) for trial in USUAL[:2])
    assert len(np.intersect1d(first["random"], second["random"])) == pytest.approx(250, abs=50)
    assert (draw(USUAL[0], wanted(USUAL)["hopper"])[1]["medium"] == first["medium"]).all()


def test_a_collection_has_what_all_trials_need_and_no_more():
    trials = [*USUAL, Trial("bc", "hopper", (0, 1000, 10), 6), Trial("bc", "ant", (1, 1, 0), 0)]
    assert wanted(trials) == {
        "hopper": {"expert": 205, "medium": 2000, "random": 1000},
        "ant": {"expert": 7, "medium": 2},
    }
    for trial in trials:
        shown, logged = draw(trial, wanted(trials)[trial.environment])
        assert len(shown) == 5 and sum(map(len, logged.values())) == sum(trial.mixture)


def test_a_small_file_serves_all_seeds():
    """There are six expert episodes: seeds begin again after the last, and logs have the rest."""
    for trial in Grid(env=("hopper",), algorithms=("bc",), sizes=(2,), expert=1).trials():
        shown, logged = draw(trial, dict.fromkeys(SOURCES, 6))
        assert sorted([*shown, *logged["expert"]]) == list(range(6))


def two_episodes() -> Episodes:
    """Of 7 and 4 steps; observations count all states, actions all steps. Only one terminated."""
    return Episodes.from_arrays(
        np.arange(13.0)[:, None],
        lengths=[7, 4],
        terminated=[True, False],
        actions=np.linspace(-1, 1, 11)[:, None],
        rewards=np.arange(11.0),
    )


def test_fragments_have_every_step_once_and_end_only_where_their_episode_does():
    whole = two_episodes()
    pieces = cut(whole, 3, seed=1)
    assert pieces.rewards is not None and whole.actions is not None
    assert sorted(pieces.lengths.tolist()) == [1, 1, 3, 3, 3]
    assert sorted(pieces.rewards.tolist()) == list(range(11))
    before, after = (pieces.observations[pieces.step_rows + i, 0] for i in (0, 1))
    assert (after == before + 1).all()
    # Step t of the second episode, and its action, follow state t + 1.
    np.testing.assert_array_equal(pieces.rewards, before - (before > 7))
    np.testing.assert_array_equal(pieces.actions, whole.actions[pieces.rewards.astype(int)])
    assert pieces.observations[pieces.ends[pieces.terminated], 0].tolist() == [7.0]
    assert sorted(before[pieces.step_starts].tolist()) == [0, 3, 6, 8, 11]
    assert before[pieces.step_starts].tolist() != sorted(before[pieces.step_starts].tolist())


def test_only_the_experts_logs_are_cut():
    space = TASKS["hopper"].action_space
    episodes = {
        source: replace(noise(400, width=11, actions=3, seed=i), action_space=space)
        for i, source in enumerate(SOURCES)
    }
    trial = Trial("bc", "hopper", (2, 2, 2), 0, demonstrations=1)
    whole, pieces = (make_data(replace(trial, fragment=n), episodes) for n in (None, 5))
    assert len(whole.init) == 6 and len(pieces.init) == 4 + 2 * (len(whole.expert.s) // 5)
    np.testing.assert_allclose(whole.normaliser.mean, pieces.normaliser.mean, atol=0.2)
    assert np.bincount(whole.source).tolist() == np.bincount(pieces.source).tolist()
    assert len(whole.expert.s) == len(pieces.expert.s)
