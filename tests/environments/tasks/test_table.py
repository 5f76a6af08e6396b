"""The table of tasks agrees with the environments and with the measured references."""

import numpy as np
import pytest

from lobsdice.environments.gym import make
from lobsdice.environments.tasks.table import TASKS


@pytest.mark.parametrize("task", TASKS)
def test_the_table_agrees_with_the_environment(task):
    spec, env = TASKS[task], make(TASKS[task])
    assert env.observation_space.shape == (spec.state_size,)  # type: ignore[attr-defined]
    box = env.action_space  # type: ignore[attr-defined]
    assert (tuple(box.low), tuple(box.high)) == (spec.action_space.low, spec.action_space.high)
    assert env.spec.max_episode_steps == spec.max_steps  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", TASKS)
def test_the_references_score_0_and_100(name):
    spec = TASKS[name]
    assert spec.normalised(spec.reference("random").mean) == 0
    assert spec.normalised(spec.reference("expert").mean) == 100
    halfway = (spec.reference("random").mean + spec.reference("expert").mean) / 2
    assert np.allclose(spec.normalised(np.array([halfway, halfway])), 50)


@pytest.mark.parametrize("name", TASKS)
def test_references_are_means_of_many_episodes_with_small_errors(name):
    expert, random = (TASKS[name].reference(source) for source in ("expert", "random"))
    assert min(expert.episodes, random.episodes) >= 100
    assert 0 < expert.standard_error < 0.05 * (expert.mean - random.mean)
    assert 0 < random.standard_error < 0.05 * (expert.mean - random.mean)
