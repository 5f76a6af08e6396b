"""The table of tasks agrees with the environments and with the measured references."""

import numpy as np
import pytest

from lobsdice.data.spaces import Discrete
from lobsdice.environments.gym import make
from lobsdice.environments.tasks.table import BUILT_IN, WORLDS


@pytest.mark.parametrize("task", BUILT_IN)
def test_the_table_agrees_with_the_environment(task):
    spec, env = BUILT_IN[task], make(BUILT_IN[task])
    assert env.observation_space.shape == (spec.state_size,)  # type: ignore[attr-defined]
    theirs, ours = env.action_space, spec.action_space  # type: ignore[attr-defined]
    if isinstance(ours, Discrete):
        assert theirs.n == ours.n
    else:
        assert (tuple(theirs.low), tuple(theirs.high)) == (ours.low, ours.high)
    assert env.spec.max_episode_steps == spec.max_steps  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_references_score_0_and_100(name):
    spec = BUILT_IN[name]
    assert spec.normalised(spec.reference("random").mean) == 0
    assert spec.normalised(spec.reference("expert").mean) == 100
    halfway = (spec.reference("random").mean + spec.reference("expert").mean) / 2
    assert np.allclose(spec.normalised(np.array([halfway, halfway])), 50)


@pytest.mark.parametrize("name", BUILT_IN)
def test_references_are_means_of_many_episodes_with_small_errors(name):
    expert, random = (BUILT_IN[name].reference(source) for source in ("expert", "random"))
    assert min(expert.episodes, random.episodes) >= 100
    # In a world, each of the 200 episodes may have the same return.
    assert name in WORLDS or min(expert.standard_error, random.standard_error) > 0
    assert expert.standard_error < 0.05 * (expert.mean - random.mean)
    assert random.standard_error < 0.05 * (expert.mean - random.mean)
