from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from lobsdice import console
from lobsdice.cli import main
from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import write


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def lobsdice(capfd, monkeypatch):
    """Run a command line in this process, without the messages that depend on the time."""
    monkeypatch.setattr(console, "PATIENCE", 1e6)
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 1e6)

    def run(*words: str | Path) -> Result:
        code = main([str(word) for word in words])
        return Result(code, *capfd.readouterr())

    return run


def make_episodes(lengths=(3, 1, 4, 2), *, seed: int = 0) -> Episodes:
    """A few random episodes with two actions and rewards."""
    random = np.random.default_rng(seed)
    steps, rows = sum(lengths), sum(lengths) + len(lengths)
    return Episodes.from_arrays(
        random.normal(size=(rows, 3)),
        lengths=list(lengths),
        terminated=[i % 2 == 0 for i in range(len(lengths))],
        actions=random.uniform(-1, 1, size=(steps, 2)),
        rewards=random.normal(size=steps),
    )


@pytest.fixture
def episodes() -> Episodes:
    return make_episodes()


@pytest.fixture
def recording(tmp_path, episodes) -> Path:
    """A small file of episodes."""
    path = tmp_path / "recording.npz"
    write(path, episodes)
    return path


@pytest.fixture
def demonstrations(tmp_path) -> Path:
    """A small file of episodes without actions, none of them in `recording`."""
    path = tmp_path / "demonstrations.npz"
    write(path, make_episodes((5, 2), seed=1).without_actions())
    return path


@pytest.fixture
def odd_recording(tmp_path, episodes) -> Path:
    """A file that gives a warning: one feature is constant."""
    observations = episodes.observations.copy()
    observations[:, 1] = 7
    path = tmp_path / "odd.npz"
    write(path, replace(episodes, observations=observations))
    return path
