"""The losses of BCO against their equations, and its policy against exact solutions."""

import jax
import numpy as np
from algorithms.probe import cloned, distance, fit
from algorithms.transcription import (
    assert_losses_are,
    cloning_objective,
    moments,
    plain,
    seven_rows,
)
from worlds import make_world, noise_data

from lobsdice import tabular
from lobsdice.algorithms import BCO


def test_losses_and_gradients_are_those_of_the_equations(key):
    """The inverse model learns from recorded actions, the policy from drawn ones."""
    algorithm, data = BCO(width=8), noise_data()
    nets = algorithm.init(key, data.state_size, data.action_space)
    batch, b = seven_rows(key)
    mean, log_std = moments(plain(nets.inverse), np.hstack([b.expert.s, b.expert.s_next]))
    drawn = np.tanh(mean + np.exp(log_std) * np.asarray(jax.random.normal(key, mean.shape)))
    ones, pairs = np.ones(7), np.hstack([b.offline.s, b.offline.s_next])
    objectives = {
        "inverse": ("inverse_loss", lambda net: cloning_objective(net, ones, pairs, b.offline.a)),
        "policy": ("policy_loss", lambda net: cloning_objective(net, ones, b.expert.s, drawn)),
    }
    assert_losses_are(objectives, algorithm, nets, batch, key)


def test_the_policy_approaches_the_exact_solution_and_the_expert_if_that_can_be_had():
    """With random transitions the actions of a pair are uncertain, and drawn ones are needed.

    With deterministic ones, each pair tells its action, and the solution is the expert itself.
    """
    worlds = [make_world(0), make_world(1), make_world(4, deterministic=True, realisable=True)]
    algorithm = BCO(width=32, inverse_rate=3e-3, policy_rate=3e-3)
    state = fit([algorithm] * 3, worlds, steps=700)
    for run, world in enumerate(worlds):
        aim = tabular.bco(world.mdp, world.d_expert, world.d_offline).occupancy
        assert distance(world, state, run, aim) < 0.05
        assert tabular.total_variation(cloned(world), aim) > 0.1
        assert run == 2 or tabular.total_variation(likeliest(world), aim) > 0.05
    assert distance(worlds[2], state, 2, worlds[2].d_labelled) < 0.05


def likeliest(world):
    """d[s, a] of whoever clones the likeliest action of each pair."""
    joint = world.d_offline[..., None] * world.mdp.transition
    chosen = np.eye(world.mdp.actions)[joint.argmax(1)].swapaxes(1, 2)
    taken = np.einsum("st,sat->sa", world.d_expert, chosen)
    return tabular.occupancy(world.mdp, taken / taken.sum(1, keepdims=True))
