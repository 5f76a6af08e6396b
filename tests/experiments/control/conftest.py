from dataclasses import replace

import numpy as np
import pytest
from worlds import noise

from lobsdice.data.formats import write
from lobsdice.environments.tasks.table import SOURCES, TASKS
from lobsdice.experiments.control import fleet
from lobsdice.training.train import train_fleet


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Short recordings in Hopper's shapes, for both of its versions."""
    folder = tmp_path_factory.mktemp("files")
    for seed, source in enumerate(SOURCES):
        episodes = noise(540, width=11, actions=3, seed=seed)
        rewards = np.full(episodes.steps, -seed, np.float32)
        space = TASKS["hopper"].action_space
        for env in ("hopper", "hopper-noisy"):
            recorded = replace(episodes, rewards=rewards, action_space=space)
            write(folder / f"{env}_{source}.npz", recorded)
    return str(folder / "{env}_{source}.npz")


@pytest.fixture
def begun(monkeypatch):
    """The fleets that are trained from now on."""
    seen, original = [], train_fleet

    def spy(fleet, **options):
        seen.append([(m.seed, m.data) for m in fleet.members])
        return original(fleet, **options)

    monkeypatch.setattr(fleet, "train_fleet", spy)
    return seen
