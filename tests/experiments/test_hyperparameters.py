"""Hyperparameters as texts get the types of their defaults."""

import pytest

from lobsdice.errors import LobsDICEError
from lobsdice.experiments.arms import settings_of
from lobsdice.experiments.hyperparameters import like


def test_truth_values_have_several_words():
    assert [like(True, word) for word in ("1", "True", "yes", True)] == [True] * 4
    assert [like(True, word) for word in ("0", "False", "no", False)] == [False] * 4


def test_a_word_that_is_no_truth_value_is_refused():
    with pytest.raises(LobsDICEError, match="'ture' should be a truth value: 1 or true or yes"):
        settings_of("lobsdice", ["averaged=ture"]).make({})
