"""The gradients of ν other than the dual's: against their formulas, and their fixed points."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algorithms.probe import QUICK, at_actions, at_states, distance, fit, weighted_actions
from algorithms.transcription import (
    calibrated,
    differences,
    flat,
    log_ratio,
    network,
    plain,
    seven_rows,
    shaken,
    slopes,
)
from scipy.optimize import brentq
from worlds import World, ending_world, make_world, noise_data

from lobsdice import tabular
from lobsdice.algorithms import SMODICE, LobsDICE
from lobsdice.algorithms.batch import Batch
from lobsdice.algorithms.gradients import Nets, orthogonal_sum, with_gradient
from lobsdice.data.prepare import Observations, Transitions

FORMS = {
    "single": LobsDICE(width=5, averaged=False),
    "averaged": LobsDICE(width=5),
    "kl": SMODICE(width=5),
    "chi2": SMODICE(width=5, chi2=True),
}


# ---- The same numbers as the formulas ----


def transcribed(algorithm, nets, b) -> np.ndarray:
    """ODICE's gradient, or its first half, of the dual of either method."""
    s, s_next = b.offline.s, b.offline.s_next
    seen = s if isinstance(algorithm, SMODICE) else np.hstack([s, s_next])
    r = log_ratio(calibrated(nets.r), seen, algorithm.ratio_floor)
    gamma, alpha = algorithm.gamma, getattr(algorithm, "alpha", 0.0)
    target, nu = plain(nets.target), plain(nets.nu)

    def value(net, x):
        return network(net, x)[:, 0]

    def rest(e, weight_at=None):
        """What the dual makes of e; its weights are those of `weight_at`, if that is given."""
        if getattr(algorithm, "chi2", False):
            return np.where(e > -1, e + e**2 / 2, -0.5).mean()
        if weight_at is None:
            return (1 + alpha) * np.log(np.exp(e / (1 + alpha)).mean())
        w = np.exp(weight_at / (1 + alpha))
        return (w * e).mean() / w.mean()

    def forward(net):
        e = r + gamma * value(target, s_next) - value(net, s)
        return rest(e, at_average(value(nu, s)))

    def backward(net):
        e = r + gamma * value(net, s_next) - value(target, s)
        return rest(e, at_average(value(target, s)))

    def at_average(nu_here):
        if getattr(nets, "q", None) is None:
            return None
        return value(plain(nets.q), np.hstack([s, b.offline.a])) - nu_here

    g_forward, g_backward = (differences(part, plain(nets.nu)) for part in (forward, backward))
    level = differences(lambda net: value(net, s).mean(), plain(nets.nu))
    if algorithm.gradient == "semi":
        return level + g_forward
    share = g_forward @ g_backward / (g_forward @ g_forward)
    start = differences(lambda net: (1 - gamma) * value(net, b.init).mean(), plain(nets.nu))
    # ODICE: (1 - <gf,gb>/|gf|²) gf + gb, and here the linear terms that leave constants alone.
    return start - share * level + (1 - share) * g_forward + g_backward


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gradient", ["semi", "orthogonal"])
def test_the_gradient_is_that_of_the_formulas_and_the_value_that_of_the_dual(form, gradient, key):
    algorithm, data = replace(FORMS[form], gradient=gradient), noise_data()
    batch, b = seven_rows(key)
    nets = algorithm.init(key, data.state_size, data.action_space)
    other = algorithm.init(jax.random.fold_in(key, 1), data.state_size, data.action_space)
    nets = shaken(nets._replace(target=other.nu))
    found, metrics = slopes(algorithm, nets, batch, key)
    np.testing.assert_allclose(
        flat(plain(found.nu)), transcribed(algorithm, nets, b), rtol=1e-5, atol=1e-8
    )
    _, of_dual = slopes(FORMS[form], nets._replace(target=None), batch, key)
    np.testing.assert_allclose(metrics["nu_loss"], of_dual["nu_loss"])
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(found.target))


def test_a_number_can_have_any_gradient(key):
    net, gradient = ({"a": jax.random.normal(k, (3,))} for k in jax.random.split(key))
    value, found = jax.value_and_grad(lambda net: with_gradient(jnp.float_(7), net, gradient))(net)
    assert value == 7 and jnp.array_equal(found["a"], gradient["a"])


def test_what_is_added_to_the_forward_gradient_is_orthogonal_to_it(key):
    forward, backward = ({"a": jax.random.normal(k, (9,))} for k in jax.random.split(key))
    added = orthogonal_sum(forward, backward)["a"] - forward["a"]
    np.testing.assert_allclose(jnp.vdot(added, forward["a"]), 0, atol=1e-12)
    # And nothing is taken from a gradient that is orthogonal already.
    again = orthogonal_sum(forward, {"a": added})["a"]
    np.testing.assert_allclose(again, forward["a"] + added, rtol=1e-9)
    np.testing.assert_allclose(orthogonal_sum({"a": 0 * added}, backward)["a"], backward["a"])


@pytest.mark.parametrize("kind", [LobsDICE, SMODICE])
def test_the_target_goes_a_two_hundredth_of_the_way_to_nu_in_each_step(kind):
    """ODICE's rate. With the gradient of the dual there is no target."""
    nets = Nets(r=1.0, nu=3.0, policy=7.0, target=1.0)
    for gradient in ("semi", "orthogonal"):
        found = kind(gradient=gradient).after_step(nets)
        assert found == nets._replace(target=pytest.approx(1.01, abs=1e-9))
    without = nets._replace(target=None)
    assert kind().after_step(without) == without


# ---- Tables in the place of networks ----


@jax.tree_util.register_pytree_node_class
class Table:
    """A function of one-hot states."""

    def __init__(self, values):
        self.values = values

    def __call__(self, x):
        return x @ self.values

    def tree_flatten(self):
        return [self.values], None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


EYE = jnp.eye(6)
#: Rows of a chain with a step back, and rows after which nothing is known.
CHAIN = (np.array([0, 1, 2, 3, 4, 0, 1]), np.array([1, 2, 3, 4, 5, 1, 0]))
APART = (np.array([0, 1, 2, 0, 1, 2, 0]), np.array([3, 4, 5, 3, 4, 5, 4]))


def table_gradient(algorithm, key, rows, level=0.0):
    """The gradient of a table ν over six states, and the mean of χ²'s weights; r has a level."""
    s, s_next = (EYE[i] for i in rows)
    r, nu = level + jax.random.normal(key, (7,)), jax.random.normal(key, (6,))
    batch = Batch(s[:2], Observations(s, s_next), Transitions(s, s[:, :2], s_next))

    def exponent(nu, nu_next):
        return r + algorithm.gamma * nu_next - nu

    def loss(table):
        nets = Nets(None, Table(table), None, Table(nu))
        value = algorithm._dual(nets.nu(batch.init), exponent(nets.nu(s), nets.nu(s_next)))
        return algorithm.directed(value, nets, batch, exponent, algorithm._dual)

    return jax.grad(loss)(nu), jnp.maximum(exponent(s @ nu, s_next @ nu) + 1, 0).mean()


each = pytest.mark.parametrize("gradient", ["full", "semi", "orthogonal"])


@each
def test_adding_a_constant_to_nu_has_no_effect(gradient, key):
    found, _ = table_gradient(SMODICE(gradient=gradient), key, CHAIN)
    assert jnp.abs(found).max() > 0.01
    np.testing.assert_allclose(found.sum(), 0, atol=1e-9)


@each
def test_the_level_of_nu_is_at_rest_exactly_where_weights_of_chi2_have_the_mean_one(gradient, key):
    """So nothing must be tuned. ODICE's weight of the linear term is free."""
    algorithm = SMODICE(gradient=gradient, chi2=True)
    slopes = {level: table_gradient(algorithm, key, CHAIN, level) for level in (-2.0, 2.0)}
    for found, mean in slopes.values():
        assert jnp.sign(found.sum()) == jnp.sign(1 - mean) != 0
    r, nu = (np.asarray(jax.random.normal(key, (n,))) for n in (7, 6))
    e = r + algorithm.gamma * nu[CHAIN[1]] - nu[CHAIN[0]]
    level: Any = brentq(lambda level: np.maximum(e + level + 1, 0).mean() - 1, -9, 9, xtol=1e-14)
    found, _ = table_gradient(algorithm, key, CHAIN, level)
    np.testing.assert_allclose(found.sum(), 0, atol=1e-9)


def test_where_no_state_is_both_left_and_entered_the_orthogonal_gradient_is_the_full_one(key):
    full, orthogonal = (
        table_gradient(SMODICE(gradient=gradient), key, APART)[0]
        for gradient in ("full", "orthogonal")
    )
    np.testing.assert_allclose(orthogonal, full, rtol=1e-9)


# ---- Trained networks ----


def soft_values(world: World, r: np.ndarray, temperature: float) -> np.ndarray:
    """π ∝ π^I exp(q/τ) for q = r(s,a) + γ E ν(s') and ν(s) = τ log E_{π^I}[exp(q/τ)]."""
    mdp, behaviour = world.mdp, world.d_offline / world.d_offline.sum(1, keepdims=True)
    nu, q = np.zeros(mdp.states), np.zeros(behaviour.shape)
    for _ in range(500):
        q = r + mdp.gamma * mdp.transition @ nu
        nu = temperature * np.log((behaviour * np.exp(q / temperature)).sum(1))
    return behaviour * np.exp((q - nu[:, None]) / temperature)


def test_semi_gradients_learn_soft_values_within_the_logs_whose_states_they_keep():
    """Soft value iteration gives the exact answer. It is not the occupancy of the dual."""
    world = ending_world("restart", slip=0.3)
    algorithm = LobsDICE(
        gamma=0.9, gradient="semi", average_rate=1e-2, sharpness=1.0, stretch=1, **QUICK
    )
    trained = fit([algorithm], [world], steps=800, batch_size=192)
    r = np.einsum("sat,st->sa", world.mdp.transition, world.log_ratio)
    policy = soft_values(world, r, 1.1)
    policy[list(world.final)] = 0.25
    aim = tabular.occupancy(world.mdp, policy)
    assert distance(world, trained, 0, aim) < 0.05
    dual = tabular.opolo(world.mdp, world.d_expert, world.d_offline, alpha=0.1, mix=0.0)
    assert tabular.total_variation(aim, dual.occupancy) > 0.1
    # The mean weight is 1 in each state: it is a ratio of policies, not of occupancies.
    q, nu = at_actions(trained.nets.q, 0, world), at_states(trained.nets.nu, 0, 9)
    states = weighted_actions(world, (q - nu[:, None]) / 1.1).sum(1)
    np.testing.assert_allclose(states, world.d_offline.sum(1), atol=0.02)
    assert abs(dual.occupancy.sum(1) - world.d_offline.sum(1)).max() > 0.1


def test_orthogonal_gradients_come_between_the_other_two():
    world = make_world(2, deterministic=True)
    algorithm = SMODICE(gamma=0.9, gradient="orthogonal", **QUICK)
    trained = fit([algorithm], [world], steps=400)
    r = np.log(world.d_expert.sum(1) / world.d_offline.sum(1))[:, None]
    semi = tabular.occupancy(world.mdp, soft_values(world, r, 1.0))
    full = tabular.smodice(world.mdp, world.d_expert, world.d_offline, mix=0.0).occupancy
    apart = tabular.total_variation(semi, full)
    assert max(distance(world, trained, 0, aim) for aim in (semi, full)) < apart
