"""The parts of the papers' losses in plain NumPy, and derivatives by differences."""

import jax
import numpy as np

from lobsdice.networks import ACTION_MARGIN


def network(net, x):
    """A rectifier network given as (weights, biases)."""
    weights, biases = net
    for i, w in enumerate(weights):
        x = x @ w + (biases[i] if i < len(biases) else 0)
        x = np.maximum(x, 0) if i < len(weights) - 1 else x
    return x


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def log_ratio(net, x, floor):
    c = sigmoid(network(net, x)[:, 0])
    return np.log((c + floor) / (1 - c + floor))


def slope(function, x, h=1e-5):
    """Central differences of a function of rows, one column at a time."""
    columns = []
    for j in range(x.shape[1]):
        step = np.zeros_like(x)
        step[:, j] = h
        columns.append((function(x + step) - function(x - step)) / (2 * h))
    return np.stack(columns, axis=1)


def ratio_objective(net, b):
    """-E_E log c - E_I log(1 - c), eq. loss_J_c."""
    expert = sigmoid(network(net, np.hstack([b.expert_s, b.expert_s_next]))[:, 0])
    offline = sigmoid(network(net, np.hstack([b.s, b.s_next]))[:, 0])
    return -np.log(expert).mean() - np.log(1 - offline).mean()


def policy_objective(net, weight, b):
    """-E[w log π(a|s)] / E[w], eq. loss_J_pi, for the density of tanh(u) with u Gaussian."""
    mean, log_std = np.split(network(net, b.s), 2, axis=1)
    mean, log_std = np.clip(mean, -7, 7), np.clip(log_std, -5, 2)
    a = np.clip(b.a, -1 + ACTION_MARGIN, 1 - ACTION_MARGIN)
    density = np.exp(-0.5 * ((np.arctanh(a) - mean) / np.exp(log_std)) ** 2)
    density /= np.sqrt(2 * np.pi) * np.exp(log_std) * (1 - a**2)
    return -(weight * np.log(density).sum(axis=1)).sum() / weight.sum()


# ---- Networks and gradients from outside ----


def double(batch):
    """The batch with all its real numbers in double precision."""
    return jax.tree.map(lambda x: x.astype(float) if x.dtype == np.float32 else x, batch)


def plain(net):
    return ([np.array(w) for w in net.net.weights], [np.array(b) for b in net.net.biases])


def assert_same_slope(gradient, objective, net, rng):
    """The derivative along random directions, by autodiff and by central differences."""
    for _ in range(4):
        direction = jax.tree.map(lambda x: rng.normal(size=x.shape), plain(net))
        along = [
            jax.tree.map(lambda x, d, h=h: x + h * d, plain(net), direction) for h in (1e-6, -1e-6)
        ]
        numeric = (objective(along[0]) - objective(along[1])) / 2e-6
        exact = sum(
            np.sum(np.asarray(g) * d)
            for g, d in zip(
                jax.tree.leaves(plain(gradient)), jax.tree.leaves(direction), strict=True
            )
        )
        np.testing.assert_allclose(exact, numeric, rtol=1e-5, atol=1e-8)
