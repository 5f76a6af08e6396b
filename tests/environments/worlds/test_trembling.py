"""The MuJoCo tasks with noise in their motors."""

import numpy as np
import pytest

from lobsdice.environments.gym import make
from lobsdice.environments.tasks.behaviour import files_of
from lobsdice.environments.tasks.collect import collect
from lobsdice.environments.tasks.table import NOISY_TASKS, TASKS, TREMBLE, family, task_of


def test_every_mujoco_task_has_a_noisy_version_with_the_same_policies():
    assert [family(name) for name in NOISY_TASKS] == list(TASKS)
    for name, spec in NOISY_TASKS.items():
        calm = TASKS[family(name)]
        assert set(files_of(calm)) < set(files_of(spec)) and spec.noise == calm.noise
        assert task_of(spec.environment) is spec and task_of(calm.environment) is calm


def test_noise_adds_to_the_action_and_stays_in_the_bounds():
    env = make("walker2d-noisy")
    env.reset(seed=0)
    trembling = env.env.env  # type: ignore[attr-defined]
    executed = np.stack([trembling.action(np.zeros(6, np.float32)) for _ in range(1000)])
    assert executed.std() == pytest.approx(TREMBLE["walker2d"], rel=0.05)
    assert abs(executed.mean()) < 0.02 and np.abs(executed).max() <= 1
    assert trembling.action(np.full(6, 0.99)).max() <= 1


def test_recordings_hold_the_action_that_was_asked_for():
    """The same seed asks for the same first actions; with noise they lead elsewhere."""
    calm, noisy, again = (
        collect(name, {"random": 1}, seed=3, workers=1)["random"]
        for name in ("hopper", "hopper-noisy", "hopper-noisy")
    )
    both = min(calm.steps, noisy.steps)
    np.testing.assert_array_equal(calm.actions[:both], noisy.actions[:both])  # type: ignore[index]
    np.testing.assert_array_equal(calm.observations[0], noisy.observations[0])
    assert (calm.observations[1] != noisy.observations[1]).any()
    np.testing.assert_array_equal(noisy.observations, again.observations)
