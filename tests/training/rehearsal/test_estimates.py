"""Estimates of a policy without a learned world, on MDPs whose answers are known."""

from dataclasses import replace

import numpy as np
import pytest
from line_world import demonstrations, going, made_world, walks

from lobsdice.data.prepare import prepare
from lobsdice.training.rehearsal.comparison import Shown
from lobsdice.training.rehearsal.estimates import (
    Logs,
    demonstration_error,
    disagreement,
    explained,
    fitted_q,
    nearness_value,
    visitation,
    visitation_distance,
)

STATES, ACTIONS, GAMMA = 6, 2, 0.9


@pytest.fixture(scope="module")
def mdp():
    """A deterministic MDP with every (s, a) once, a reward, first states and a policy."""
    random = np.random.default_rng(0)
    after = random.integers(STATES, size=(STATES, ACTIONS))
    reward = random.uniform(size=(STATES, ACTIONS))
    first = random.dirichlet(np.ones(STATES))
    policy = random.dirichlet(np.ones(ACTIONS), size=STATES)
    return after, reward, first, policy


def exact(mdp):
    """The occupancy of (s, a) by solving the flow equations."""
    after, reward, first, policy = mdp
    chain = np.zeros((STATES, STATES))
    for s in range(STATES):
        for a in range(ACTIONS):
            chain[s, after[s, a]] += policy[s, a]
    states = np.linalg.solve(np.eye(STATES) - GAMMA * chain.T, (1 - GAMMA) * first)
    occupancy = states[:, None] * policy
    return occupancy, float((occupancy * reward).sum())


def features(mdp):
    """One feature for each (s, a); policies mix the features of their actions."""
    after, _, first, policy = mdp
    now = np.eye(STATES * ACTIONS)
    mixed = np.zeros((STATES, STATES * ACTIONS))
    for s in range(STATES):
        mixed[s, s * ACTIONS : (s + 1) * ACTIONS] = policy[s]
    return now, mixed[after.ravel()], (first @ mixed)[None]


def test_fitted_q_evaluation_is_exact_with_a_feature_for_each_state_and_action(mdp):
    _, value = exact(mdp)
    found = fitted_q(*features(mdp), mdp[1].ravel(), gamma=GAMMA, ridge=0.0)
    assert found == pytest.approx(value, abs=1e-10)


def test_the_dice_weights_are_the_occupancy_of_the_policy(mdp):
    occupancy, value = exact(mdp)
    w = visitation(*features(mdp), gamma=GAMMA, ridge=0.0)
    np.testing.assert_allclose(w, occupancy.ravel(), atol=1e-10)
    assert w @ mdp[1].ravel() == pytest.approx(value, abs=1e-10)


@pytest.fixture(scope="module")
def logs():
    random = np.random.default_rng(0)
    actions, starts = random.uniform(-1, 1, 40), random.uniform(-0.2, 0.2, 40)
    data = prepare(demonstrations(), walks(actions, starts, noise=0.6))
    world = replace(made_world(), normaliser=data.normaliser)
    return Logs(data, Shown(demonstrations(), world))


def test_values_and_visits_prefer_the_policy_that_does_as_demonstrated(logs):
    good, wrong = going(0.8), going(-0.8)
    assert nearness_value(logs, good) > nearness_value(logs, wrong) + 0.1
    assert visitation_distance(logs, good) < visitation_distance(logs, wrong)


def test_the_error_on_the_demonstrations_is_the_squared_distance_of_actions():
    states = np.zeros((3, 1), np.float32)
    actions = np.full((3, 1), 0.5, np.float32)
    assert demonstration_error(going(0.5), states, actions) == pytest.approx(0, abs=1e-6)
    assert demonstration_error(going(-0.5), states, actions) == pytest.approx(1, abs=1e-5)


def test_a_policy_explains_as_much_of_the_actions_as_it_is_better_than_a_constant():
    inferred = np.array([[1.0], [1.0], [0.0], [0.0]], np.float32)
    world = replace(made_world(), demonstrated=np.zeros((4, 1), np.float32), inferred=inferred)
    # The best constant is 0.5, with an error of 0.25. No policy that is constant is better.
    assert explained(world, going(0.5)) == pytest.approx(0, abs=1e-4)
    assert explained(world, going(-0.8)) == 0
    trivial = replace(world, inferred=np.full((4, 1), 0.5, np.float32))
    assert explained(trivial, going(0.5)) == pytest.approx(1, abs=1e-3)
    bent = going(0.5)
    first = replace(bent, weights=(np.ones((1, 4), np.float32), np.eye(4, 2, dtype=np.float32)))
    first = replace(first, biases=(np.zeros(4, np.float32), np.array([0, -5], np.float32)))
    states = np.array([[0.5], [0.5], [0.0], [0.0]], np.float32)
    half = float(np.tanh(0.5))  # its actions at 0.5 and 0
    shown = replace(world, demonstrated=states)
    expected = 1 - ((1 - half) ** 2 / 2) / 0.25
    assert explained(shown, first) == pytest.approx(expected, abs=1e-3)


def test_a_policy_that_differs_from_the_others_disagrees_most():
    states = np.zeros((3, 1), np.float32)
    found = disagreement([going(0.5), going(0.5), going(-0.5)], states)
    np.testing.assert_allclose(found, [0.5, 0.5, 1.0], atol=1e-5)
    assert disagreement([going(0.5)], states).tolist() == [0.0]
