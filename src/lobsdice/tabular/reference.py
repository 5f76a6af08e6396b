"""The paper's own methods for finite MDPs, which are slower or biased; for comparison.

`gradient_descent` is algorithm 1 of the paper. `single_sample` minimises eq. (23), the dual of the
neural method, in which one sample of s' replaces the expectation over s'. It is exact if
transitions are deterministic. Otherwise it solves a relaxed problem, in which d may choose s'.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lobsdice.equations import duals
from lobsdice.errors import LobsDICEError
from lobsdice.tabular.baselines import demodice, infer_actions
from lobsdice.tabular.mdp import MDP, Floats
from lobsdice.tabular.solution import Solution
from lobsdice.tabular.solver import double_precision
from lobsdice.tabular.support import behaviour_policy, conditional, push


class Descent(NamedTuple):
    """The result of algorithm 1, and the objective at every step."""

    policy: Float[np.ndarray, "S A"]
    weights: Float[np.ndarray, "S A"]  # w = d / d^I
    nu: Float[np.ndarray, " S"]
    mu: Float[np.ndarray, "S S"]
    objective: Float[np.ndarray, " steps"]


def _check_dense(mdp: MDP) -> None:
    if mdp.sparse:
        raise LobsDICEError("this method needs dense transitions, but those of the MDP are sparse")


def tabular_objective(mu, nu, *, mdp: MDP, r, d_offline, alpha: float) -> tuple[Array, Array]:
    """J(μ, ν) of eq. (52), and e_{μ,ν}(s,a)."""
    inner = -mu - nu[:, None] + mdp.gamma * nu[None, :]
    e = jnp.einsum("sat,st->sa", mdp.transition, inner)
    pairs = jnp.einsum("sa,sat->st", d_offline, mdp.transition)
    values = (nu, r.ravel(), mu.ravel(), e.ravel())
    p = {"p_init": jnp.asarray(mdp.initial), "p_pairs": pairs.ravel(), "p": d_offline.ravel()}
    return duals.lagrange_dual_double(*values, gamma=mdp.gamma, alpha=alpha, **p), e


def _log_ratio(mdp: MDP, d_expert, d_offline, mix: float) -> Array:
    """log d^E(s,s') / d^I(s,s'); zero outside the support, where the value does not matter."""
    pairs = jnp.einsum("sa,sat->st", d_offline, mdp.transition)
    expert = (1 - mix) * jnp.asarray(d_expert) + mix * pairs
    return jnp.where(pairs > 0, jnp.log(jnp.where(pairs > 0, expert / pairs, 1.0)), 0.0)


def gradient_descent(
    mdp: MDP,
    d_expert,
    d_offline,
    *,
    alpha: float = 0.1,
    mix: float = 0.0,
    learning_rate: float = 0.1,
    steps: int = 10_000,
) -> Descent:
    """Run algorithm 1: gradient descent on (μ, ν), then π(a|s) ∝ d^I(s,a) w(s,a)."""
    _check_dense(mdp)
    with double_precision():
        d_offline = jnp.asarray(d_offline)
        r = _log_ratio(mdp, d_expert, d_offline, mix)

        def objective(mu, nu):
            return tabular_objective(mu, nu, mdp=mdp, r=r, d_offline=d_offline, alpha=alpha)

        def step(point, _):
            (value, _), slope = jax.value_and_grad(objective, argnums=(0, 1), has_aux=True)(*point)
            return jax.tree.map(lambda x, g: x - learning_rate * g, point, slope), value

        zero = (jnp.zeros((mdp.states, mdp.states)), jnp.zeros(mdp.states))
        (mu, nu), history = jax.jit(lambda at: jax.lax.scan(step, at, length=steps))(zero)
        e = objective(mu, nu)[1]
        w = duals.closed_form_weights(e.ravel(), alpha=alpha).reshape(e.shape)
        policy = behaviour_policy(np.asarray(d_offline * w))
        return Descent(policy, *map(np.asarray, (w, nu, mu, history)))


def single_sample(
    mdp: MDP, d_expert, d_offline, *, alpha: float | Floats = 0.1, mix: float | None = None
) -> Solution:
    """Minimise the single-sample dual, eq. (23), and clone its self-normalised weights.

    This is the dual of DemoDICE in an MDP whose actions are the next states themselves, with the
    offline pairs as offline data. `occupancy` is the weighted data, Σ_s' d(s,s') p^I(a|s,s'). It
    need not be an occupancy of the MDP: `primal`, `dual` and `gap` are of the relaxed problem.
    """
    _check_dense(mdp)
    d_offline = np.asarray(d_offline, dtype=float)
    choose = np.broadcast_to(np.eye(mdp.states), (*mdp.transition.shape[:-2], *[mdp.states] * 2))
    pairs = push(d_offline, mdp.transition)
    relaxed = demodice(MDP(choose, mdp.initial, mdp.gamma), d_expert, pairs, alpha=alpha, mix=mix)
    # A dead end has no actions in the data, so its mass is dropped.
    d = infer_actions(relaxed.occupancy, d_offline, mdp.transition, pairs)
    policy = conditional(d, behaviour_policy(d_offline))
    return relaxed._replace(policy=policy, occupancy=d)
