"""The names of algorithms."""

from unittest.mock import patch

import pytest

from lobsdice.algorithms import ALGORITHMS, BC, register
from lobsdice.errors import LobsDICEError


def test_an_algorithm_has_the_name_of_its_module():
    assert all(
        kind.__module__ == f"lobsdice.algorithms.{name}" for name, kind in ALGORITHMS.items()
    )


def test_a_second_algorithm_of_a_name_is_refused_and_the_first_stays():
    other = type("Other", (), {"__module__": "elsewhere.bc"})
    with patch.dict(ALGORITHMS), pytest.raises(LobsDICEError, match="an algorithm 'bc' already"):
        register(other)
    assert ALGORITHMS["bc"] is BC and register(BC) is BC
