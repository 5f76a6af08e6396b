"""The suffixes of recordings, and a comparison of two, for the tests of the commands on data."""

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import FORMATS

#: One suffix for each format; that of a Minari dataset, a folder, is empty.
SUFFIXES = [kind.suffixes[0] for kind in FORMATS]


def assert_same(found: Episodes, expected: Episodes) -> None:
    for name in ("observations", "lengths", "terminated", "actions", "rewards"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
