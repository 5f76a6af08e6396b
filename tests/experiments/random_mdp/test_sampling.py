"""Counts drawn at once have the distribution of counts of simulated trajectories."""

import numpy as np
import pytest
from scipy import stats

from lobsdice.experiments.random_mdp import sampling
from lobsdice.experiments.random_mdp.mdps import SUCCESSORS, draw_skeleton, make_instances, spread
from lobsdice.tabular import occupancy

STATES, ACTIONS, GAMMA = 5, 2, 0.8


@pytest.fixture(scope="module")
def world():
    """A random MDP, and a policy that is not uniform."""
    rng = np.random.default_rng(0)
    made = make_instances([draw_skeleton(rng, STATES, ACTIONS)], 0.7, gamma=GAMMA, optimality=0.5)
    policy = rng.dirichlet(np.ones(ACTIONS), size=STATES)
    return made, policy


def draw(world, groups, horizon, seed=1):
    made, policy = world
    rng = np.random.default_rng(seed)
    weights = sampling.discount_weights(GAMMA, horizon)
    model = (made.successors[0], made.probabilities[0])
    return sampling.draw_counts(rng, *model, policy, groups=groups, weights=weights)


def simulate(world, repeats, trajectories, horizon):
    """Plain simulation: counts[repeat, s, a, successor], plain and discounted."""
    made, policy = world
    rng = np.random.default_rng(2)
    cumulative = (policy[:, :, None] * made.probabilities[0]).reshape(STATES, -1).cumsum(-1)
    arrive = made.successors[0].reshape(STATES, -1)
    repeat = np.repeat(np.arange(repeats), trajectories)
    here = np.zeros(repeats * trajectories, dtype=int)
    plain = np.zeros((repeats, STATES, ACTIONS * SUCCESSORS))
    discounted = plain.copy()
    for weight in sampling.discount_weights(GAMMA, horizon):
        drawn = (cumulative[here] < rng.random((here.size, 1))).sum(-1)
        drawn = np.minimum(drawn, ACTIONS * SUCCESSORS - 1)
        np.add.at(plain, (repeat, here, drawn), 1.0)
        np.add.at(discounted, (repeat, here, drawn), weight)
        here = arrive[here, drawn]
    shape = (repeats, STATES, ACTIONS, SUCCESSORS)
    return sampling.Counts(plain.reshape(shape), discounted.reshape(shape))


def expected(world, horizon):
    """The exact mean of the discounted counts of one trajectory, over (s,a)."""
    made, policy = world
    law, total = np.eye(STATES)[0], np.zeros((STATES, ACTIONS))
    for weight in sampling.discount_weights(GAMMA, horizon):
        pairs = law[:, None] * policy
        total += weight * pairs
        law = np.einsum("sa,sat->t", pairs, made.mdp.transition[0])
    return total


def test_splitting_has_the_distribution_of_simulation(world):
    repeats, trajectories, horizon = 3000, 7, 6
    split = draw(world, [trajectories] * repeats, horizon)
    plain = simulate(world, repeats, trajectories, horizon)
    for ours, theirs in zip(split, plain, strict=True):
        ours, theirs = ours.reshape(repeats, -1), theirs.reshape(repeats, -1)
        for power in (1, 2):
            a, b = ours**power, theirs**power
            error = np.sqrt((a.var(0) + b.var(0)) / repeats)
            assert np.all(abs(a.mean(0) - b.mean(0)) < 4.5 * error + 1e-12)
        columns = zip(ours.T, theirs.T, strict=True)
        chances = np.array([stats.ks_2samp(*column, method="asymp")[1] for column in columns])
        assert chances.min() > 0.01 / len(chances)


def test_splitting_has_the_covariances_of_simulation(world):
    repeats = 4000
    ours = draw(world, [5] * repeats, 4).plain.sum((2, 3))
    theirs = simulate(world, repeats, 5, 4).plain.sum((2, 3))
    assert np.allclose(np.cov(ours.T), np.cov(theirs.T), atol=0.25)


def test_the_mean_of_the_discounted_counts_is_exact(world):
    repeats = 4000
    drawn = draw(world, [3] * repeats, 12).discounted.sum(-1) / 3
    error = drawn.std(0) / np.sqrt(repeats)
    assert np.all(abs(drawn.mean(0) - expected(world, 12)) < 4.5 * error + 1e-12)


def test_the_horizon_costs_at_most_its_share_of_the_discounted_sum(world):
    made, policy = world
    exact = occupancy(made.mdp, policy[None])[0]
    for horizon in (5, 10, 40):
        bias = 0.5 * abs(expected(world, horizon) - exact).sum()
        assert bias <= GAMMA**horizon


def test_the_discounted_estimate_converges_to_the_occupancy(world):
    made, policy = world
    exact = occupancy(made.mdp, policy[None])[0]
    sizes = (100, 10_000, 1_000_000)
    drawn = draw(world, list(sizes), 80).discounted.sum(-1)
    errors = [0.5 * abs(d / n - exact).sum() for d, n in zip(drawn, sizes, strict=True)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3


def test_counts_converge_to_the_transition_probabilities(world):
    made, _ = world
    counts = draw(world, [200_000], 20).plain
    estimate = counts / counts.sum(-1, keepdims=True)
    assert np.allclose(spread(made.successors[0], estimate), made.mdp.transition, atol=5e-3)


def test_all_trajectories_are_counted_at_every_step(world):
    counts = draw(world, [1, 10, 1000], 7)
    assert np.array_equal(counts.plain.sum((1, 2, 3)), [7, 70, 7000])
    assert np.allclose(counts.discounted.sum((1, 2, 3)), [1, 10, 1000])


def test_nested_counts_contain_the_smaller_ones(world):
    totals = (1, 3, 10, 300)
    counts = draw(world, sampling.group_sizes(totals), 7).nested()
    assert np.array_equal(counts.plain.sum((1, 2, 3)), 7 * np.array(totals))
    assert np.all(np.diff(counts.plain, axis=0) >= 0)
    assert np.all(np.diff(counts.discounted, axis=0) >= 0)
