"""The quick part of the audit agrees with the audit, and names actions that are states."""

from dataclasses import replace

import numpy as np
import pytest

from lobsdice.data.audit import audit
from lobsdice.data.audit.glance import MOST_OFFLINE, PIECE, _spread, glance
from lobsdice.data.audit.targets import targets
from lobsdice.data.episodes import Episodes
from lobsdice.data.spaces import Box


def loops(count: int, seed: int, *, length: int = 60, centre: float = 0.0, pace: float = 0.2):
    """Noisy loops that start anywhere: different episodes visit the same places."""
    random = np.random.default_rng(seed)
    time = random.uniform(0, 2 * np.pi, (count, 1)) + np.arange(length + 1) * pace
    angles = time[..., None] + np.arange(3)
    rows = centre + np.sin(angles) + 0.05 * random.normal(size=angles.shape)
    return Episodes.from_arrays(
        rows.reshape(-1, 3),
        lengths=[length] * count,
        actions=random.uniform(-1, 1, (count * length, 1)),
        observation_names=("x", "y", "z"),
    )


LOGS = loops(40, seed=0)


@pytest.mark.parametrize("centre, verdict", [(0.0, "covered"), (4.0, "not covered")])
def test_the_verdict_on_small_data_is_that_of_the_audit(centre, verdict):
    expert = loops(4, seed=1, centre=centre)
    found = glance(expert, LOGS)
    assert found.verdict == audit(expert, LOGS).verdict == verdict
    line = found.sentence(0)
    assert "\n" not in line
    assert ("NOT COVERED: 100% of" in line) == (verdict == "not covered")
    assert line.endswith("units alike, rates alike, ends plausible, no leak")


def test_the_verdict_on_large_data_comes_from_pieces_of_it():
    large = loops(700, seed=2)
    assert large.steps > MOST_OFFLINE
    rows = _spread(large, MOST_OFFLINE)
    assert len(rows) <= MOST_OFFLINE and rows[0] == 0 and rows[-1] == large.steps - 1
    assert (np.diff(rows) == 1).mean() > 1 - 2 / PIECE
    assert glance(loops(4, seed=1), large).verdict == "covered"
    assert glance(loops(4, seed=1, centre=4.0), large).verdict == "not covered"


def test_rates_leaks_and_warnings_of_ends_are_in_the_line():
    fast = glance(loops(6, seed=1, pace=0.6), LOGS).sentence(2)
    assert "RATES: one demonstrated step looks like 3 logged steps" in fast
    assert "ENDS: see the warnings" in fast and "rates alike" not in fast
    copied = glance(LOGS.first(1), LOGS)
    assert "LEAK: 60 demonstrated pairs in the logs" in copied.sentence(0)
    allowed = copied.sentence(0, leak_allowed=True)
    assert allowed.endswith("ends plausible, 60 demonstrated pairs in the logs, as allowed")
    assert "LEAK" not in allowed


def test_fill_values_are_in_the_line():
    observations = LOGS.observations.copy()
    observations[::300, 0] = -9999
    line = glance(loops(6, seed=1), replace(LOGS, observations=observations)).sentence(0)
    assert "FILL VALUES: feature x has the value -9999 in" in line


def acting(actions: np.ndarray) -> Episodes:
    space = Box.of(actions.min(axis=0) - 1, actions.max(axis=0) + 1, names=["target", "grip"])
    return replace(LOGS, actions=actions.astype(np.float32), action_space=space)


def test_actions_that_equal_a_state_are_named_with_what_it_means():
    rows, other = LOGS.step_rows, np.random.default_rng(1).uniform(-1, 1, LOGS.steps)
    now, then = LOGS.observations[rows, 1], LOGS.observations[rows + 1, 1]
    (copied,) = targets(acting(np.stack([now, other], axis=1)))
    assert (copied.action, copied.feature, copied.when) == ("target", "y", "this")
    assert "a policy learns to copy its input" in copied.remark
    (target,) = targets(acting(np.stack([then, other], axis=1)))
    assert (target.feature, target.when, target.share) == ("y", "next", 1.0)
    assert "as teleoperation records it" in target.remark
    assert targets(LOGS) == []


def test_the_audit_warns_of_copied_states_and_remarks_on_targets():
    rows = LOGS.step_rows
    expert = loops(4, seed=1)
    two = [np.stack([LOGS.observations[r, 0]] * 2, axis=1) for r in (rows, rows + 1)]
    copied, reached = (audit(expert, acting(actions)) for actions in two)
    assert copied.warns and not reached.warns
    assert [target["when"] for target in reached.report()["targets"]] == ["next", "next"]


def test_the_audit_names_episodes_as_the_file_does():
    names = tuple(f"T{i:04}" for i in range(40))
    expert = replace(loops(2, seed=1, centre=4.0), episode_names=("A7", "B2"))
    found = audit(expert, replace(LOGS, episode_names=names))
    assert {part.name for part in found.uncovered} == {"A7", "B2"}
    assert all(support.name == f"T{support.episode:04}" for support in found.closest)
