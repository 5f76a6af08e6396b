"""The losses of IQ-Learn against their equations, and its fixed points with and without labels."""

import jax
import numpy as np
import pytest
from algorithms.actors import assert_same_losses, critic, expect, noise_of, numbers, seen, setting
from algorithms.probe import fit, policy_table
from worlds import World, make_world, one_hot_data

from lobsdice import tabular
from lobsdice.algorithms import IQLearn

#: Training is done once for all tests of this file.
pytestmark = pytest.mark.xdist_group("iqlearn")

each_space = pytest.mark.parametrize("space", ["box", "finite"])
each_source = pytest.mark.parametrize("labelled", [False, True], ids=["states", "labelled"])


def transcribed(nets, b, key, space, *, labelled):
    """The losses of one critic and of the policy, as functions of these networks alone."""
    noises = [noise_of(k, 7, space) for k in jax.random.split(key, 3)]
    frozen = {name: numbers(net) for name, net in nets._asdict().items()}
    s, s_next = (b.labelled.s, b.labelled.s_next) if labelled else (b.expert.s, b.expert.s_next)

    def value(policy, critics, s, noise):
        def soft(action, log_prob):
            return np.min([critic(q, s, action) for q in critics], axis=0) - 0.01 * log_prob

        return expect(policy, s, soft, noise)

    y = 0.99 * value(frozen["policy"], frozen["target"], s_next, noises[1])

    def of_critic(net):
        def gain(action, _):
            reward = critic(net, s, action) - y
            return reward - reward**2 / (4 * 0.5)

        if labelled:
            gains = gain(seen(b.labelled.a), None)
        else:
            gains = expect(frozen["policy"], s, gain, noises[0])
        return -gains.mean() + (value(frozen["policy"], [net], s, noises[0]) - y).mean()

    return of_critic, lambda net: -value(net, frozen["critic"], s, noises[2]).mean()


@each_space
@each_source
def test_losses_and_gradients_are_those_of_the_equations(key, space, labelled):
    algorithm = IQLearn(width=5, from_labelled=labelled)
    nets, batch, b = setting(algorithm, key, space)
    of_critic, of_policy = transcribed(nets, b, key, space, labelled=labelled)
    assert_same_losses(algorithm, nets, batch, key, of_critic, of_policy)


def test_labels_are_needed_exactly_when_they_are_used():
    assert IQLearn(from_labelled=True).needs_labels and not IQLearn().needs_labels


# ---- With labels: the expert ----


WORLDS = [make_world(seed, realisable=True) for seed in range(3)]


@pytest.fixture(scope="module")
def imitated():
    # A low temperature makes π = π^E the optimum, nearly; see the page of the algorithm.
    algorithm = IQLearn(
        gamma=0.9,
        temperature=0.02,
        tau=0.05,
        critic_rate=3e-3,
        policy_rate=3e-3,
        width=32,
        from_labelled=True,
    )
    return fit([algorithm] * 3, WORLDS, steps=1500)


def test_with_labels_it_recovers_the_expert(imitated):
    for run in range(3):
        world, mdp = WORLDS[run], WORLDS[run].mdp
        expert = world.d_labelled / world.d_labelled.sum(1, keepdims=True)
        aim = tabular.occupancy(mdp, expert)
        ours = tabular.occupancy(mdp, policy_table(imitated, run, mdp.states))
        assert tabular.total_variation(ours, aim) < 0.05
        assert tabular.total_variation(tabular.bc(mdp, world.d_offline).occupancy, aim) > 0.1


# ---- Without labels: nothing ----


def two_states(expert) -> World:
    """Two states and three actions, and pairs [s, s'] of an expert."""
    offline = np.full((2, 3, 2), 5)
    pairs, starts = np.array(expert), np.array([1, 1])
    mdp = tabular.from_counts(offline, starts, 0.5)
    data = one_hot_data(offline, pairs, offline, starts)
    d_offline = offline.sum(2) / offline.sum()
    return World(mdp, pairs / pairs.sum(), d_offline, d_offline, data)


def test_without_labels_every_expert_gives_the_uniform_policy():
    """The stationary point, by hand.

    Let the actions at the expert's states be the policy's. For one pair (s,s') and y = γ V(s') the
    critic's loss is

        -E_π[Q - y] + E_π[(Q - y)²]/(4α) + (V(s) - y)   with   V(s) = E_π[Q] - τ E_π[log π]
        = E_π[(Q - y)²]/(4α) - τ E_π[log π],

    for the linear terms cancel. It is least where Q(s,a) = γ E[V(s') | s] for all a that π takes:
    the reward is zero. Then Q is flat in a, the soft improvement of π gives the uniform policy over
    A actions, E_π[-log π] = log A, and V(s) = γ E[V(s') | s] + τ log A. Both states have the same
    solution, V = τ log A / (1-γ), Q = γ V, whatever the expert's pairs are.

    Here γ = 0.5, τ = 0.5, A = 3: V = log 3 = 1.0986, Q = 0.5493. The experts are one who goes to
    and fro, and one who leaves state 0 and stays in state 1, but for a fifth of the time.
    """
    worlds = [two_states([[0, 10], [10, 0]]), two_states([[1, 9], [2, 8]])]
    algorithm = IQLearn(
        gamma=0.5, temperature=0.5, tau=0.05, critic_rate=5e-3, policy_rate=5e-3, width=16
    )
    state = fit([algorithm] * 2, worlds, steps=600, batch_size=64)
    for run in range(2):
        np.testing.assert_allclose(policy_table(state, run, 2), 1 / 3, atol=0.02)
        nets = jax.tree.map(lambda x, run=run: np.asarray(x[run]), state.nets.critic)
        rows = np.hstack([np.repeat(np.eye(2), 3, axis=0), np.tile(np.eye(3), (2, 1))])
        for net in numbers(nets):
            q = critic(net, rows[:, :2], rows[:, 2:])
            np.testing.assert_allclose(q, 0.5 * np.log(3), atol=0.02)
