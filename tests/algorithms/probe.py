"""Training on one-hot worlds, and tables read off the networks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from worlds import World, beginning

from lobsdice import tabular
from lobsdice.algorithms import LobsDICE
from lobsdice.equations.terminal import Terminal
from lobsdice.training.engine import ADAM, Member, Options, State
from lobsdice.training.fleet import Fleet, iterate

#: For a few hundred steps on a small world: no penalty to speak of, and no bound on log ratios.
QUICK: dict[str, Any] = {
    "width": 32,
    "ratio_floor": 1e-6,
    "ratio_penalty": 0.0,
    "nu_penalty": 0.0,
    "ratio_rate": 3e-3,
    "nu_rate": 3e-3,
    "policy_rate": 3e-3,
    "penalty_every": 25,
}


def fit(
    algorithms: Sequence[Any],
    worlds: Sequence[World],
    *,
    steps: int,
    batch_size: int = 128,
    ratios: bool = False,
    terminal: Terminal = "restart",
) -> State:
    """One run for each algorithm and its world, in one program.

    `terminal` is the reading of ends, if the worlds have any. With `ratios` the discriminators are
    replaced by the true log ratios, for good.
    """
    # Exact solutions are those of all the data.
    options = Options(
        steps=steps,
        batch_size=batch_size,
        cooldown=1.0,
        average=0.99,
        hold_out=False,
        terminal=terminal,
    )
    if ratios:
        algorithms = [replace(a, ratio_rate=0.0, ratio_floor=0.0) for a in algorithms]
    members = tuple(Member(a, data=i, options=options) for i, a in enumerate(algorithms))
    fleet = Fleet(members, tuple(world.data for world in worlds))
    state = beginning(fleet)
    if ratios:
        nets = state.nets._replace(r=Table(jnp.stack([world.log_ratio for world in worlds])))
        state = state._replace(nets=nets, optimiser=jax.vmap(ADAM.init)(nets))
    *_, last = iterate(fleet, every=steps, begin=(0, state))
    assert (last.state.failed_at == -1).all()
    return last.state


@jax.tree_util.register_pytree_node_class
class Table:
    """A function of two one-hot states, in the place of a network."""

    def __init__(self, values):
        self.values = values

    def __call__(self, x):
        s, s_next = jnp.split(x, 2, axis=-1)
        return jnp.sum((s @ self.values) * s_next, axis=-1)

    learned = __call__

    def line(self, logit):
        return logit

    def tree_flatten(self):
        return [self.values], None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


def at_states(net: Any, run: int, states: int) -> np.ndarray:
    """A network's values at all one-hot states."""
    net = jax.tree.map(lambda x: x[run], net)
    return np.asarray(net(jnp.eye(states)))


def at_pairs(net: Any, run: int, states: int) -> np.ndarray:
    """A network's values at all pairs of one-hot states, [s, s']."""
    net = jax.tree.map(lambda x: x[run], net)
    eye = jnp.eye(states)
    rows = jnp.concatenate([jnp.repeat(eye, states, axis=0), jnp.tile(eye, (states, 1))], axis=1)
    return np.asarray(net(rows)).reshape(states, states)


def at_actions(net: Any, run: int, world: World) -> np.ndarray:
    """A network's values at all one-hot states and actions, [s, a]; none is taken at an end."""
    net = jax.tree.map(lambda x: x[run], net)
    size, actions = world.mdp.states, world.mdp.actions
    taken = np.tile(np.eye(actions), (size, 1, 1))
    taken[list(world.final)] = 0
    states = np.repeat(np.eye(size)[:, None], actions, axis=1)
    return np.asarray(net(jnp.asarray(np.concatenate([states, taken], axis=2))))


def policy_table(state: State, run: int, states: int) -> np.ndarray:
    """π[s, a] of the averaged policy."""
    return np.array(jax.nn.softmax(at_states(state.average.net, run, states)))


def weighted(world: World, exponent: np.ndarray) -> np.ndarray:
    """d[s, a] ∝ Σ_s' d^I(s,a,s') exp(x(s,s')): the offline data under self-normalised weights."""
    w = np.exp(exponent - exponent.max())
    d = np.einsum("sa,sat,st->sa", world.d_offline, world.mdp.transition, w)
    return d / d.sum()


def exponent(r: np.ndarray, nu: np.ndarray, gamma: float) -> np.ndarray:
    """A_ν(s,s') / (1+α) for LobsDICE's α = 0.1."""
    return (r + gamma * nu[None, :] - nu[:, None]) / 1.1


def averages(world: World, x: np.ndarray) -> np.ndarray:
    """E[x(s,s') | s,a]."""
    return np.einsum("sat,st->sa", world.mdp.transition, x)


def weighted_actions(world: World, exponent: np.ndarray) -> np.ndarray:
    """d[s, a] ∝ d^I(s,a) exp(x(s,a))."""
    d = world.d_offline * np.exp(exponent - exponent.max())
    return d / d.sum()


def distance(world: World, state: State, run: int, aim: np.ndarray) -> float:
    """The total variation between the occupancy of a run's policy and another, d[s, a]."""
    policy = policy_table(state, run, world.mdp.states)
    policy[list(world.final)] = 1 / world.mdp.actions  # nothing is done there
    ours = tabular.occupancy(world.mdp, policy)
    return float(tabular.total_variation(ours, aim))


def cloned(world: World) -> np.ndarray:
    """d[s, a] of whoever clones the offline data."""
    return tabular.bc(world.mdp, world.d_offline).occupancy


# ---- LobsDICE ----


def single_or_averaged(form: str, gamma: float) -> LobsDICE:
    """LobsDICE with a `single` sample of s', as in the paper, or `averaged` over s'."""
    return LobsDICE(
        gamma=gamma,
        averaged=form == "averaged",
        average_rate=1e-2,
        sharpness=1.0,
        stretch=1,
        **QUICK,
    )


def exact_form(form: str, world: World) -> tabular.Solution:
    """What these networks should learn. Averaged over s', the objective is OPOLO's."""
    arguments = (world.mdp, world.d_expert, world.d_offline)
    if form == "single":
        return tabular.single_sample(*arguments, mix=0.0)
    return tabular.opolo(*arguments, alpha=0.1, mix=0.0)
