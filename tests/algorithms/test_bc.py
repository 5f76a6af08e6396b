"""Behaviour cloning against the data's own conditional frequencies."""

import pytest
from algorithms.probe import cloned, distance, fit
from worlds import make_world

from lobsdice import tabular
from lobsdice.algorithms import BC

WORLDS = [make_world(0), make_world(3)]


def labelled(world):
    """d[s, a] of the policy that the labelled demonstrations show."""
    policy = world.d_labelled / world.d_labelled.sum(1, keepdims=True)
    return tabular.occupancy(world.mdp, policy)


@pytest.mark.parametrize("from_labelled", [False, True], ids=["offline", "labelled"])
def test_the_policy_becomes_that_of_the_data(from_labelled):
    algorithm = BC(from_labelled=from_labelled, width=32, policy_rate=3e-3)
    state = fit([algorithm] * 2, WORLDS, steps=500)
    for run, world in enumerate(WORLDS):
        aims = [cloned(world), labelled(world)]
        assert distance(world, state, run, aims[from_labelled]) < 0.05
        assert tabular.total_variation(*aims) > 0.1
