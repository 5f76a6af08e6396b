"""The sentence after training says what is so."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from worlds import noise

from lobsdice.algorithms import BC, LobsDICE
from lobsdice.data.ends import never_near_an_end
from lobsdice.data.episodes import Episodes
from lobsdice.data.prepare import prepare
from lobsdice.data.recordings import Recordings
from lobsdice.training.closing import closing, error_of_constant
from lobsdice.training.diagnostics import infer_actions
from lobsdice.training.engine import Member
from lobsdice.training.fleet import Fleet
from lobsdice.training.folder import RunFolder
from lobsdice.training.select import CRITERION

EXPERT, LOGS = noise(60, seed=1), noise(120, seed=0)
DATA = prepare(EXPERT, LOGS)
CONSTANT = error_of_constant(DATA)


def test_the_constant_action_with_the_least_error_is_the_mean():
    actions = np.asarray(infer_actions(DATA).a)
    others = np.linspace(-1, 1, 41)
    errors = [np.mean((actions - other) ** 2) for other in others]
    assert min(errors) >= CONSTANT and pytest.approx(np.mean(actions.var(axis=0))) == CONSTANT


def said(*errors: float, failures=()) -> tuple[str, bool]:
    """The sentence about a run of behaviour cloning with these errors, one after the other."""
    rows = [{"step": 10 * i, "run": 0, "seed": 0, CRITERION: e} for i, e in enumerate(errors)]
    fleet = Fleet((Member(BC(width=4)),), (DATA,))
    return closing(fleet, rows, failures, Recordings(EXPERT, LOGS), RunFolder(Path("nowhere")))


def test_it_says_what_was_learned_from_and_that_nothing_failed():
    words, failed = said(0.9 * CONSTANT, 0.5 * CONSTANT)
    assert not failed and words.startswith(
        f"learned from {len(EXPERT)} demonstrations ({EXPERT.steps:,} steps) and {len(LOGS)} "
        f"logged episodes ({LOGS.steps:,} steps); no failure by offline measures "
        f"(error {0.5 * CONSTANT:.2g}"
    )
    assert "--which selected" not in words


def test_a_policy_no_better_than_a_constant_action_failed():
    words, failed = said(0.5 * CONSTANT, 1.01 * CONSTANT)
    assert failed and "by offline measures it FAILED: at demonstrated states its actions" in words


def test_it_tells_of_an_earlier_policy_that_was_better_and_of_runs_that_stopped():
    words, _ = said(0.3 * CONSTANT, 0.8 * CONSTANT, failures=[0])
    assert "1 run of 1 stopped early" in words
    assert "an earlier policy was better: --which selected" in words


def test_nothing_is_said_of_the_weights_of_logs_on_the_disk():
    logs = noise(3000)
    fleet = Fleet((Member(LobsDICE(width=4)),), (prepare(EXPERT, logs, pool=1024),))
    row = {"step": 10, "run": 0, "seed": 0, CRITERION: 0.0}
    folder = RunFolder(Path("nowhere"))  # its checkpoint is not looked for
    words, _ = closing(fleet, [row], (), Recordings(EXPERT, logs), folder)
    assert "300 logged episodes (3,000 steps)" in words and "heaviest" not in words


def paths(*ends: float, terminated: bool) -> Episodes:
    """Episodes that go from 0 to an end in equal steps."""
    rows = np.concatenate([np.linspace(0, end, 21) for end in ends])
    count = len(ends)
    actions = np.linspace(-1, 1, 20 * count)
    return Episodes.from_arrays(
        np.stack([rows, np.cos(rows)], axis=1),
        lengths=[20] * count,
        actions=actions,
        terminated=[terminated] * count,
    )


@pytest.mark.parametrize("terminated", [True, False])
def test_episodes_that_never_come_near_the_end_are_counted(terminated):
    expert = paths(10.0, 10.1, 9.9, terminated=terminated)
    logs = paths(3.0, 10.05, 12.0, -10.0, 5.0, terminated=False)
    assert never_near_an_end(expert, logs, np.arange(5)) == 3
    assert never_near_an_end(expert, logs, np.array([1, 2])) == 0


def test_demonstrations_without_a_common_end_have_none_to_reach():
    expert = paths(3.0, -7.0, 9.0, terminated=False)
    assert never_near_an_end(expert, paths(1.0, -1.0, terminated=False), np.arange(2)) == 0
    marked = replace(expert, terminated=np.ones(3, bool))
    assert never_near_an_end(marked, paths(1.0, -1.0, terminated=False), np.arange(2)) == 0
