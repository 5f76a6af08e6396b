"""Implicit Q-learning (Kostrikov et al., 2022, arXiv:2110.06169) as functions of values.

paper        here     meaning
Q(s,a)       q        the smaller of two target critics
V(s)         v        the upper expectile of Q over the actions in the data
τ            tau      which expectile: 0.5 is the mean, 1 the maximum
β            beta     inverse temperature of the weights
"""

import jax.numpy as jnp

from lobsdice.equations.duals import Number, Values

#: The largest weight of a row, as in the authors' code.
LARGEST_WEIGHT = 100.0


def expectile_loss(difference: Values, tau: Number) -> Values:
    """|τ - 1(x < 0)| x², equation 3 of the paper.

    The minimiser of its mean over Q - V is an expectile of Q.
    """
    return jnp.abs(tau - (difference < 0)) * difference**2


def advantage_weights(advantage: Values, beta: Number) -> Values:
    """min(exp(β (Q - V)), 100), equation 7 of the paper."""
    return jnp.exp(log_advantage_weights(advantage, beta))


def log_advantage_weights(advantage: Values, beta: Number) -> Values:
    """The logarithms of these weights, of which none overflows."""
    return jnp.minimum(beta * advantage, jnp.log(LARGEST_WEIGHT))


def bellman_target(reward: Values, v_next: Values, goes_on: Values, gamma: Number) -> Values:
    """r + γ m V(s'), equation 6 of the paper; m is 0 where nothing follows."""
    return reward + gamma * goes_on * v_next
