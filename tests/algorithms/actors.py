"""Transcriptions in plain NumPy that the tests of actor-critic algorithms share."""

import jax
import numpy as np
from algorithms.transcription import (
    assert_same_slope,
    moments,
    network,
    plain,
    seven_rows,
    shaken,
    slopes,
)
from worlds import noise_data

from lobsdice.algorithms.critics import Twins, make_twins
from lobsdice.algorithms.networks import ACTION_MARGIN


def log_likelihood(net, s, a):
    """log π(a|s): of a whole number under a softmax, of a vector under the tanh of a Gaussian."""
    if a.ndim == 1:
        score = network(net, s)
        return score[np.arange(len(a)), a] - np.log(np.exp(score).sum(1))
    mean, log_std = moments(net, s)
    a = np.clip(a, -1 + ACTION_MARGIN, 1 - ACTION_MARGIN)
    log_density = -0.5 * ((np.arctanh(a) - mean) / np.exp(log_std)) ** 2
    log_density -= np.log(np.sqrt(2 * np.pi)) + log_std + np.log(1 - a**2)
    return log_density.sum(axis=1)


def expect(net, s, function, noise):
    """E_{a~π(s)}[f(action, log π(a|s))]: the sum over actions, or at the one that noise gives."""
    if noise is not None:
        mean, log_std = moments(net, s)
        u = mean + np.exp(log_std) * noise
        density = np.exp(-0.5 * noise**2) / (np.sqrt(2 * np.pi) * np.exp(log_std) / np.cosh(u) ** 2)
        return function(np.tanh(u), np.log(density).sum(axis=1))
    total = np.zeros(len(s))
    actions = network(net, s).shape[1]
    for i in range(actions):
        log_prob = log_likelihood(net, s, np.full(len(s), i))
        total += np.exp(log_prob) * function(np.tile(np.eye(actions)[i], (len(s), 1)), log_prob)
    return total


def noise_of(key, rows, space):
    """The normal numbers that a policy draws for two-dimensional actions by this key."""
    return np.asarray(jax.random.normal(key, (rows, 2))) if space == "box" else None


def seen(a):
    """Actions as critics see them."""
    return np.eye(2)[a] if a.ndim == 1 else a


def critic(net, s, action):
    return network(net, np.hstack([s, action]))[:, 0]


def numbers(net):
    """A network as (weights, biases), or a pair of them."""
    return Twins(*map(plain, net)) if isinstance(net, Twins) else plain(net)


def setting(algorithm, key, space):
    """Networks whose targets differ from their originals, and seven rows of everything."""
    data = noise_data(discrete=space == "finite")
    batch, b = seven_rows(key, discrete=space == "finite")
    nets = algorithm.init(key, data.state_size, data.action_space)
    other = jax.random.fold_in(key, 1)
    target = make_twins(other, data.state_size, data.action_space, algorithm.width)
    return shaken(nets._replace(target=target)), batch, b


def assert_same_losses(algorithm, nets, batch, key, of_critic, of_policy):
    """The algorithm's losses and slopes are those of transcriptions; targets have no slope."""
    gradient, metrics = slopes(algorithm, nets, batch, key)
    np.testing.assert_allclose(metrics["critic_loss"], sum(map(of_critic, numbers(nets.critic))))
    np.testing.assert_allclose(metrics["policy_loss"], of_policy(numbers(nets.policy)))
    rng = np.random.default_rng(0)
    for slope, net in zip(gradient.critic, nets.critic, strict=True):
        assert_same_slope(slope, of_critic, net, rng)
    assert_same_slope(gradient.policy, of_policy, nets.policy, rng)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(gradient.target))
