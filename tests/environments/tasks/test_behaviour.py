import numpy as np
import pytest

from lobsdice.environments.tasks.behaviour import behaviour_of
from lobsdice.environments.tasks.table import SOURCES, TASKS


@pytest.mark.parametrize("task", TASKS)
def test_every_policy_acts_inside_the_bounds(task):
    spec, rng = TASKS[task], np.random.default_rng(0)
    for source in SOURCES:
        act = behaviour_of(spec, source)
        states = rng.normal(0, 10, (50, spec.state_size)).astype(np.float32)
        actions = np.stack([act(state, rng) for state in states])
        assert actions.shape == (50, spec.action_size) and actions.dtype == np.float32
        assert not len(spec.action_space.outside(actions)) and actions.std() > 0
