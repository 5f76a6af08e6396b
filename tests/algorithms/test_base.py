"""Hyperparameters: bounds, and what JAX sees of them."""

from dataclasses import replace
from typing import Any, Literal

import jax
import pytest

from lobsdice.algorithms import BC, LobsDICE, LobsDICEMu, NearestTrajectory, OptiDICE
from lobsdice.algorithms.base import hyperparameters, one_of
from lobsdice.errors import LobsDICEError


@pytest.mark.parametrize(
    "kind, setting, sentence",
    [
        (BC, {"width": 0}, "`width` is 0; it must be at least 1"),
        (LobsDICE, {"penalty_every": 0}, "`penalty_every` is 0; it must be at least 1"),
        (LobsDICE, {"gamma": 99.0}, "`gamma` is 99.0; it must be between 0 and 1"),
        (LobsDICE, {"alpha": -1.0}, "`alpha` is -1.0; it must be at least 0"),
        (NearestTrajectory, {"temperature": 0.0}, "`temperature` is 0.0; it must be larger than 0"),
        (OptiDICE, {"alpha": 0.0}, "`alpha` is 0.0; it must be larger than 0"),
        (LobsDICEMu, {"alpha": float("inf")}, "`alpha` is inf; it must be larger than 0, and"),
        (BC, {"policy_rate": float("nan")}, "`policy_rate` is nan; it must be at least 0"),
    ],
)
def test_a_hyperparameter_outside_its_bounds_is_refused(kind, setting, sentence):
    with pytest.raises(LobsDICEError, match=sentence):
        kind(**setting)
    with pytest.raises(LobsDICEError, match=sentence):
        replace(kind(), **setting)


@hyperparameters
class Choosing:
    word: Literal["this", "that"] = one_of(Literal["this", "that"], default="this")


def test_a_word_that_is_not_a_choice_is_refused():
    word: Any = "neither"
    with pytest.raises(LobsDICEError, match="`word` is 'neither'; it must be one of: this, that"):
        Choosing(word=word)
    assert Choosing(word="that").word == "that"


def test_bounds_include_their_ends():
    assert LobsDICE(gamma=1.0, alpha=0.0, width=1).gamma == 1


def test_floats_are_leaves_and_all_else_is_static():
    leaves, structure = jax.tree.flatten(BC(policy_rate=0.5, width=7))
    assert leaves == [0.5]
    assert jax.tree.unflatten(structure, [0.25]) == BC(policy_rate=0.25, width=7)
