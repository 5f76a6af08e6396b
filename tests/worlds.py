"""Small worlds that several tests train on."""

import numpy as np

from lobsdice.data import Data, prepare
from lobsdice.episodes import Episodes


def noise(steps: int, *, width: int = 3, actions: int = 2, discrete: bool = False, seed: int = 0):
    """Episodes of ten steps with nothing to learn in them."""
    rng = np.random.default_rng(seed)
    taken = rng.integers(0, actions, steps) if discrete else rng.uniform(-1, 1, (steps, actions))
    return Episodes.from_arrays(
        rng.normal(size=(steps + steps // 10, width)),
        lengths=[10] * (steps // 10),
        actions=taken,
        terminated=rng.random(steps // 10) < 0.5,
    )


def noise_data(*, discrete: bool = False, seed: int = 0, **options) -> Data:
    """Data that any algorithm can take steps on."""
    expert = noise(40, discrete=discrete, seed=2 * seed + 1)
    return prepare(expert, noise(80, discrete=discrete, seed=2 * seed), **options)
