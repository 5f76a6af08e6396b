import numpy as np
import pytest
from hypothesis import given, strategies as st

from lobsdice.data.spaces import FLOAT32_MAX, Box, Discrete
from lobsdice.errors import LobsDICEError


def test_a_box_becomes_minus_one_to_one():
    box = Box.of([0, -4], [10, 4])
    np.testing.assert_allclose(box.encode(np.array([[0.0, 4], [5, 0]])), [[-1, 1], [0, 0]])
    np.testing.assert_allclose(box.decode(np.array([[-1.0, 1], [0, 0.5]])), [[0, 4], [5, 2]])


@given(st.floats(-100, 100), st.floats(0.01, 100), st.floats(0, 1))
def test_decoding_undoes_encoding(low, width, share):
    box = Box.of([low], [low + width])
    action = np.array([[low + share * width]])
    np.testing.assert_allclose(box.decode(box.encode(action)), action, rtol=1e-5, atol=1e-5 * width)


def test_what_is_encoded_or_decoded_stays_inside():
    box = Box.of([0.0], [1.0])
    np.testing.assert_array_equal(box.encode(np.array([[-5.0], [5.0]])), [[-1], [1]])
    np.testing.assert_array_equal(box.decode(np.array([[-5.0], [5.0]])), [[0], [1]])


def test_rows_outside_are_found_but_rounding_is_forgiven():
    box = Box.of([0.0, 0.0], [1.0, 2.0])
    actions = np.array([[0, 0], [1 + 1e-7, 2], [1.1, 1], [0.5, -0.1]])
    assert box.outside(actions).tolist() == [2, 3]
    assert Discrete(3).outside(np.array([0, 3, 2, -1])).tolist() == [1, 3]


def test_the_largest_box_holds_the_largest_numbers():
    box = Box.of([-FLOAT32_MAX], [FLOAT32_MAX])
    actions = np.array([[-FLOAT32_MAX], [0], [FLOAT32_MAX]], np.float32)
    assert not box.outside(actions).size
    np.testing.assert_array_equal(box.decode(box.encode(actions)), actions)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ([1], [1]),
        ([1], [0]),
        ([np.nan], [1]),
        ([-np.inf], [1]),
        ([0], [1e300]),
        ([], []),
        ([0], [1, 2]),
    ],
)
def test_bounds_that_make_no_box_are_refused(low, high):
    with pytest.raises(LobsDICEError, match="action bounds"):
        Box.of(low, high)


def test_there_is_at_least_one_discrete_action():
    with pytest.raises(LobsDICEError, match="at least one action, not 0"):
        Discrete(0)
