"""The losses of DILO against the authors', its triples, and exact solutions."""

from dataclasses import replace
from typing import Any

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algorithms.actors import critic, log_likelihood, numbers
from algorithms.probe import at_pairs, cloned, distance, fit, policy_table
from algorithms.transcription import differences, flat, plain, seven_rows, shaken, slopes
from worlds import FINAL, GOAL, World, ending_world, noise, noise_data

from lobsdice import tabular
from lobsdice.algorithms import DILO
from lobsdice.algorithms.dilo import triples
from lobsdice.data.episodes import Episodes
from lobsdice.data.prepare import prepare
from lobsdice.equations.dilo import conjugate
from lobsdice.errors import LobsDICEError
from lobsdice.training.draws import draw_batch, pack
from lobsdice.training.engine import Member
from lobsdice.training.fleet import Fleet

# ---- The same numbers as the authors' losses ----


def f_star(y):
    """ω = max(y/2 + 1, 0), f* = y ω - (ω - 1)², as the authors write it."""
    omega = np.maximum(y / 2 + 1, 0)
    return y * omega - (omega - 1) ** 2


def test_the_conjugate_is_the_authors():
    y = np.linspace(-5, 5, 41)
    np.testing.assert_allclose(conjugate(jnp.asarray(y)), f_star(y), atol=1e-12)


def transcribed(algorithm, nets, b):
    """The loss of one utility, and the gradient that both have by the authors' formulas."""
    sets = [(b.expert, b.after_expert), (b.offline, b.after_offline)]
    target, twins = numbers(nets.target), [plain(net) for net in nets.critic]

    def here(net, i):
        return critic(net, sets[i][0].s, sets[i][0].s_next)

    def after(net, i):
        return critic(net, sets[i][0].s_next, sets[i][1].s)

    def low(values, i):
        return np.min([values(net, i) for net in target], axis=0)

    def mean(x, i):
        return x[sets[i][1].known].mean()

    def residuals(v, v_after):
        y = [0.99 * sets[i][1].goes_on * v_after(i) - v(i) for i in (0, 1)]
        of_logs = mean(f_star(y[1]), 1) - mean(y[1], 1)
        return 0.8 * (0.5 * mean(f_star(y[0]), 0) + 0.5 * of_logs)

    def forward(net):
        return residuals(lambda i: here(net, i), lambda i: low(after, i))

    def backward(net):
        return 0.5 * residuals(lambda i: low(here, i), lambda i: after(net, i))

    def linear(net):
        return 0.2 * mean(here(net, 1), 1)

    def both(net):
        return linear(net) + residuals(lambda i: here(net, i), lambda i: after(net, i))

    def slope(part):
        return np.concatenate([differences(part, net) / 2 for net in twins])

    start, ahead, back = map(slope, (linear, forward, backward))
    whole = start + ahead
    if algorithm.gradient == "full":
        whole = slope(both)
    if algorithm.gradient == "orthogonal":
        whole = start + (1 - ahead @ back / max(ahead @ ahead, 1e-10)) * ahead + back
    return sum(map(both, twins)) / 2, whole


@pytest.mark.parametrize("gradient", ["full", "semi", "orthogonal"])
def test_the_losses_and_gradients_are_those_of_the_authors(gradient, key):
    algorithm, data = DILO(width=4, gradient=gradient), noise_data(ended=0.7)
    batch, b = seven_rows(key, ended=0.7)
    after = b.after_offline
    assert not after.known.all() or not after.goes_on.all()
    fresh = [algorithm.init(k, data.state_size, data.action_space) for k in jax.random.split(key)]
    nets = shaken(fresh[0]._replace(target=fresh[1].critic))
    found, metrics = slopes(algorithm, nets, batch, key)
    value, gradients = transcribed(algorithm, nets, b)
    np.testing.assert_allclose(metrics["critic_loss"], value)
    ours = np.concatenate([flat(plain(net)) for net in found.critic])
    np.testing.assert_allclose(ours, gradients, rtol=1e-5, atol=1e-8)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(found.target))
    s, a, s_next = b.offline
    v = np.min([critic(net, s, s_next) for net in numbers(nets.critic)], axis=0)
    w = np.minimum(np.exp(0.06 * v), 100)
    # The authors do not divide by the mean, so that the level of V scales the policy's steps.
    policy_loss = -(w * log_likelihood(plain(nets.policy), s, a)).mean() / w.mean()
    np.testing.assert_allclose(metrics["policy_loss"], policy_loss)
    np.testing.assert_allclose(jnp.exp(algorithm.log_weights(nets, batch.offline)), w)


# ---- Trained networks against exact solutions ----

QUICK: dict[str, Any] = {
    "gamma": 0.9,
    "beta": 0.5,
    "tau": 0.05,
    "width": 32,
    "critic_rate": 1e-2,
    "policy_rate": 3e-3,
}


def every_triple(world: World, terminal) -> list[tuple[np.ndarray, ...]]:
    """The numbers (s, s', s'') of many drawn rows of the expert and of the logs, and their γ."""
    pool, slices = pack([world.data])
    mine = jax.tree.map(lambda x: x[0], slices)
    options = {"end_mass": 9.0 if terminal == "stay" else 1.0, "restart": terminal == "restart"}
    batch = draw_batch(jax.random.key(0), pool, mine, 60_000, ahead=terminal, **options)
    found = []
    for rows, after in ((batch.expert, batch.after_expert), (batch.offline, batch.after_offline)):
        assert after is not None
        x = triples(rows, after, 0.9)
        known = np.asarray(x.p) > 0
        numbers = [np.asarray(y.argmax(1))[known] for y in (rows.s, rows.s_next, after.s)]
        found.append((*numbers, np.asarray(x.discount)[known]))
    return found


def exact_utility(world: World, terminal) -> np.ndarray:
    """V[s, s'] that minimises the loss over tables, by a conic solver."""
    v = cp.Variable(81)
    terms = []
    for s, s_next, after, discount in every_triple(world, terminal):
        different, counts = np.unique(
            np.stack([9 * s + s_next, 9 * s_next + after, discount > 0]), axis=1, return_counts=True
        )
        p = counts / counts.sum()
        y = cp.multiply(0.9 * different[2], v[different[1]]) - v[different[0]]
        terms.append((p @ (cp.square(cp.pos(y / 2 + 1)) - 1), p @ y, p @ v[different[0]]))
    (expert, _, _), (offline, mean, level) = terms
    loss = 0.2 * level + 0.8 * (0.5 * expert + 0.5 * offline - 0.5 * mean)
    cp.Problem(cp.Minimize(loss)).solve(cp.CLARABEL)
    assert v.value is not None
    return v.value.reshape(9, 9)


def aim(world: World, v: np.ndarray) -> np.ndarray:
    """The occupancy of the policy that clones with the weights of V."""
    w = np.minimum(np.exp(0.5 * v), 100)
    d = world.d_offline * (world.mdp.transition @ w[..., None])[..., 0]
    policy = d / d.sum(1, keepdims=True)
    policy[list(world.final)] = 0.25
    return tabular.occupancy(world.mdp, policy)


def test_with_the_full_gradient_the_utility_is_that_of_the_convex_problem():
    world = ending_world("stay")
    algorithm = DILO(gradient="full", **QUICK)
    trained = fit([algorithm], [world], steps=1500, batch_size=192, terminal="stay")
    v = exact_utility(world, "stay")
    seen = world.d_pairs > 0.01
    found = at_pairs(trained.nets.critic.one, 0, 9)
    assert np.abs(found - v)[seen].max() < 0.15 * np.ptp(v[seen])
    assert distance(world, trained, 0, aim(world, v)) < 0.05
    assert tabular.total_variation(cloned(world), aim(world, v)) > 0.05


def test_by_default_it_seeks_the_goal_and_avoids_the_pits():
    world = ending_world("restart")
    trained = fit([DILO(**QUICK)], [world], steps=800, batch_size=192)
    success = [
        tabular.occupancy(world.mdp, policy)[list(FINAL)].sum(1)
        for policy in (policy_table(trained, 0, 9), np.full((9, 4), 0.25))
    ]
    ours, logs = (x[FINAL.index(GOAL)] / x.sum() for x in success)
    assert ours > logs + 0.1


# ---- Data without triples ----


def test_data_without_three_states_in_a_row_is_refused_by_a_sentence():
    with pytest.raises(LobsDICEError, match="only one in 2 transitions of the demonstrations"):
        Fleet((Member(DILO()),), (noise_data(every=2),))
    with pytest.raises(LobsDICEError, match="does not say how episodes go on"):
        Fleet((Member(DILO()),), (replace(noise_data(), ahead=None),))
    short = Episodes.from_arrays(
        np.random.default_rng(0).normal(size=(8, 3)),
        lengths=[1] * 4,
        actions=np.zeros((4, 2)),
    )
    with pytest.raises(LobsDICEError, match="the demonstrations have only two in each episode"):
        Fleet((Member(DILO()),), (prepare(short, noise(80)),))
