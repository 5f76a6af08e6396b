"""How near the logs begin to what is demonstrated."""

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.data.starts import far_starts


def from_places(starts: np.ndarray, steps: int = 10) -> Episodes:
    """Episodes that go straight from each start to the origin."""
    share = np.linspace(1, 0, steps + 1)[:, None]
    rows = np.concatenate([share * start for start in starts])
    return Episodes.from_arrays(rows, lengths=[steps] * len(starts))


def places(count: int) -> np.ndarray:
    return np.random.default_rng(count).normal(size=(count, 6))


def test_logs_that_begin_where_no_demonstration_went_are_said():
    said = far_starts(from_places(places(3)), from_places(places(200)))
    assert said is not None and "demonstrate from more first states" in said
    assert "begin more than" in said and "standard deviations" in said


def test_logs_that_begin_near_demonstrated_states_are_not():
    shown = places(40)
    assert far_starts(from_places(shown), from_places(shown[:20] + 0.01)) is None
