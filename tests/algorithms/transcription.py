"""The parts of the papers' losses in plain NumPy, and derivatives by differences."""

from functools import partial

import jax
import numpy as np
from worlds import noise_data

from lobsdice.algorithms.networks import ACTION_MARGIN
from lobsdice.training.draws import draw_batch, pack


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


def logistic_objective(net, expert, offline):
    """-E_E log c - E_I log(1 - c), eq. (53)."""
    expert, offline = (sigmoid(network(net, x)[:, 0]) for x in (expert, offline))
    return -np.log(expert).mean() - np.log(1 - offline).mean()


def ratio_objective(net, b):
    """The same for pairs of states."""
    return logistic_objective(
        net, np.hstack([b.expert.s, b.expert.s_next]), np.hstack([b.offline.s, b.offline.s_next])
    )


def advantage(nu, r, b, h):
    """r + γ ν(s') - ν(s)."""
    return r + h.gamma * network(nu, b.offline.s_next)[:, 0] - network(nu, b.offline.s)[:, 0]


def nu_objective(nu, r, b, h, alpha):
    """(1-γ) E ν(s0) + (1+α) log E exp(A/(1+α)), eq. (54)."""
    x = advantage(nu, r, b, h) / (1 + alpha)
    initial = network(nu, b.init)[:, 0].mean()
    return (1 - h.gamma) * initial + (1 + alpha) * np.log(np.exp(x).mean())


def slope_penalties(nets, b, expert, offline, key, h):
    """The penalties on r and ν, for seven rows, of which halves and thirds are taken."""
    k_r, k_nu = jax.random.split(key)
    x = np.vstack([expert[:4], offline[:4]])
    y = np.vstack([offline[:4], np.roll(offline, 1, axis=0)[:4]])
    u = np.asarray(jax.random.uniform(k_r, (len(x), 1)))
    r_slope = slope(lambda z: log_ratio(plain(nets.r), z, h.ratio_floor), y + u * (x - y))
    x = np.vstack([b.expert.s[:3], b.expert.s_next[:3]])
    y = np.vstack([b.offline.s[:3], b.offline.s_next[:3]])
    u = np.asarray(jax.random.uniform(k_nu, (len(x), 1)))
    points = np.vstack([b.offline.s[:3], y + u * (x - y)])
    nu_slope = slope(lambda z: network(plain(nets.nu), z)[:, 0], points)
    of_r = ((np.linalg.norm(r_slope, axis=1) - 1) ** 2).mean()
    of_nu = (np.linalg.norm(nu_slope, axis=1) ** 2).mean()
    return {"ratio_penalty": h.ratio_penalty * of_r, "nu_penalty": h.nu_penalty * of_nu}


def moments(net, x):
    """Mean and log deviation of a tanh-Gaussian head."""
    mean, log_std = np.split(network(net, x), 2, axis=1)
    return np.clip(mean, -7, 7), np.clip(log_std, -5, 2)


def policy_objective(net, weight, b):
    """-E[w log π(a|s)] / E[w], eq. (55)."""
    return cloning_objective(net, weight, b.offline.s, b.offline.a)


def cloning_objective(net, weight, x, a):
    """The same at any rows, for the density of tanh(u) with u Gaussian."""
    mean, log_std = moments(net, x)
    a = np.clip(a, -1 + ACTION_MARGIN, 1 - ACTION_MARGIN)
    exponent = -0.5 * ((np.arctanh(a) - mean) / np.exp(log_std)) ** 2
    log_density = exponent - np.log(np.sqrt(2 * np.pi) * np.exp(log_std) * (1 - a**2))
    return -(weight * log_density.sum(axis=1)).sum() / weight.sum()


# ---- Networks and gradients from outside ----


def seven_rows(key, **options):
    """A batch of noise, and its copy in plain NumPy."""
    pool, slices = pack([noise_data(**options)])
    mine = jax.tree.map(lambda x: x[0], slices)
    batch = double(draw_batch(key, pool, mine, 7, ahead="keep"))
    return batch, jax.tree.map(np.asarray, batch)


def shaken(nets):
    """The networks with all weights moved a little, in double precision.

    Biases that are zero leave units exactly at the kink of the rectifier.
    """
    leaves, shape = jax.tree.flatten(nets)
    rng = np.random.default_rng(0)
    return jax.tree.unflatten(shape, [x + 0.1 * rng.normal(size=x.shape) for x in leaves])


def double(batch):
    """The batch with all its real numbers in double precision."""
    return jax.tree.map(lambda x: x.astype(float) if x.dtype == np.float32 else x, batch)


def plain(net):
    return ([np.array(w) for w in net.net.weights], [np.array(b) for b in net.net.biases])


def flat(net) -> np.ndarray:
    return np.concatenate([x.ravel() for part in net for x in part])


def differences(function, net, h=1e-6) -> np.ndarray:
    """The derivatives of a function of a network in each of its weights, by central differences."""
    found = []
    for part in net:
        for x in part:
            for i in np.ndindex(x.shape):
                old, ends = x[i], []
                for step in (h, -h):
                    x[i] = old + step
                    ends.append(function(net))
                x[i] = old
                found.append((ends[0] - ends[1]) / (2 * h))
    return np.array(found)


def calibrated(net):
    """A discriminator whose last layer has the slope and the bias of its line."""
    weights, biases = plain(net)
    last = weights[-1] * np.array(net.slope)
    return [*weights[:-1], last], [*biases, np.array(net.bias)[None]]


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


@jax.jit
def slopes(algorithm, nets, batch, key):
    """The gradient of an algorithm's plain loss, and its metrics, in one compiled program."""
    return jax.grad(partial(algorithm.loss, penalised=0), has_aux=True)(nets, batch, key)


@jax.jit
def penalised(algorithm, nets, batch, key):
    """The metrics of a penalised step."""
    return algorithm.loss(nets, batch, key, penalised=1)[1]


def assert_losses_are(objectives, algorithm, nets, batch, key):
    """Each loss and its gradient are as `objectives` say: of each network (metric, function)."""
    gradient, metrics = slopes(algorithm, nets, batch, key)
    rng = np.random.default_rng(0)
    assert set(objectives) == {name for name, net in nets._asdict().items() if net is not None}
    for name, (metric, objective) in objectives.items():
        net = getattr(nets, name)
        np.testing.assert_allclose(metrics[metric], objective(plain(net)))
        assert_same_slope(getattr(gradient, name), objective, net, rng)
