"""The losses of ReCOIL (Sikchi et al., ICLR 2024, arXiv:2302.08560) as functions of values.

code        here       meaning
Q, V(s)     q, v       a critic of what was done in s, and its soft maximum over the logs
z           z          (Q - V) / temperature
M           level      the largest z of a batch, at least -1; it only scales the loss
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from lobsdice.equations.duals import Number, Values
from lobsdice.equations.expectations import mean

#: Beyond this z the exponential goes on as a straight line; the authors' code has no slope there.
LARGEST_Z = 7.0
#: The smallest level that scales the loss, as in the authors' code.
SMALLEST_LEVEL = -1.0


def soft_maximum_loss(z: Values, level: Float[Array, ""]) -> Values:
    """(e^z - z - 1) e^-M (Garg et al., 2023): the minimum over V has E[e^z] = 1 in each state.

    So V is temperature · log E[exp(Q / temperature)] over the actions in the data.
    """
    below = jnp.minimum(z, LARGEST_Z)
    return (jnp.exp(below) * (1 + z - below) - z - 1) * jnp.exp(-level)


def scale_level(*z: Values) -> Float[Array, ""]:
    """M = max(the largest z, -1), where no z counts as larger than the bound."""
    largest = jnp.max(jnp.minimum(jnp.concatenate(z), LARGEST_Z))
    return jnp.maximum(largest, SMALLEST_LEVEL)


def logged_aim(v_next: Values, *, gamma: Number, cost: Number) -> Values:
    """γ V(s') - cost: the score of a logged step."""
    return gamma * v_next - cost


def regression_loss(
    shown: Float[Array, " m"], logged: Values, *, best: Number, aim: Values
) -> Float[Array, ""]:
    """½ E_E[(Q - best)²] + ½ E_I[(Q - aim)²].

    It is least at the mean of both aims, weighted by the masses of the two data sets.
    """
    return (mean((shown - best) ** 2) + mean((logged - aim) ** 2)) / 2
