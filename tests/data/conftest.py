import numpy as np
import pytest

from lobsdice.data.episodes import Episodes


@pytest.fixture
def episodes() -> Episodes:
    """Three episodes of 1, 4 and 3 steps; the second one terminated."""
    rng = np.random.default_rng(0)
    return Episodes.from_arrays(
        rng.normal(size=(11, 3)),
        lengths=[1, 4, 3],
        terminated=[False, True, False],
        actions=rng.uniform(-1, 1, (8, 2)),
        rewards=rng.normal(size=8),
    )
