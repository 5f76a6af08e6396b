"""Networks. Every leaf is a float array, so plain jax.jit, grad, vmap and scan work on them.

Rows may lack an action: it is NaN in a box and -1 in a finite set. Such a row has the likelihood 1
and the error 0 under every policy, so that it never counts in cloning.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from lobsdice.data.spaces import LOG_STD_BOUNDS, MEAN_BOUND, ActionSpace, Box

Values = Float[Array, " n"]
Features = Float[Array, "n features"]

#: Recorded actions are kept this far inside (-1, 1). The inverse tanh of an action at the bound is
#: infinite, and a likelihood that tries to reach it makes the policy swing from step to step.
ACTION_MARGIN = 1e-3
#: The means of a mixture's components begin this far from zero at most, before the tanh.
APART = 1.0
#: The standard deviation of a standard normal variable between -2 and 2.
CUT_DEVIATION = 0.87962566103423978


def lacking(a: Float[Array, "*batch action"] | Int[Array, "*batch"]) -> Bool[Array, "*batch"]:
    """True for the rows without an action."""
    return a < 0 if jnp.issubdtype(a.dtype, jnp.integer) else jnp.isnan(a).any(axis=-1)


def without(
    a: Float[Array, "n action"] | Int[Array, " n"], rows: Bool[Array, " n"]
) -> Float[Array, "n action"] | Int[Array, " n"]:
    """The actions, but none in the given rows."""
    if jnp.issubdtype(a.dtype, jnp.integer):
        return jnp.where(rows, -1, a)
    return jnp.where(rows[:, None], jnp.nan, a)


def he_scale(fan_in: int) -> float:
    """The factor of a normal draw that was cut at ±2, so that its variance is 2 / fan_in."""
    return math.sqrt(2 / fan_in) / CUT_DEVIATION


class MLP(eqx.Module):
    """Fully connected layers with rectifiers between them."""

    weights: list[Float[Array, "fan_in fan_out"]]
    biases: list[Float[Array, " fan_out"]]

    def __init__(self, key: Key[Array, ""], *sizes: int, last_bias: bool = True):
        shapes = list(pairwise(sizes))
        # One draw for all layers, of which small ones need a part: it compiles in a third of the
        # time of a draw for each.
        most = max(fan_in * fan_out for fan_in, fan_out in shapes)
        draw = partial(jax.random.truncated_normal, lower=-2.0, upper=2.0, shape=(most,))
        draws = jax.vmap(draw)(jax.random.split(key, len(shapes)))
        self.weights = [
            draw[: fan_in * fan_out].reshape(fan_in, fan_out) * he_scale(fan_in)
            for draw, (fan_in, fan_out) in zip(draws, shapes, strict=True)
        ]
        self.biases = [jnp.zeros(n) for n in (sizes[1:] if last_bias else sizes[1:-1])]

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        for i, w in enumerate(self.weights):
            x = x @ w
            if i < len(self.biases):
                x = x + jnp.broadcast_to(self.biases[i], x.shape)
            if i < len(self.weights) - 1:
                x = jax.nn.relu(x)
        return x


class Scalar(eqx.Module):
    """A real function of rows, such as states or state pairs: one number a row.

    The last layer has no bias, as in the authors' code.
    """

    net: MLP

    def __init__(self, key: Key[Array, ""], in_size: int, width: int):
        self.net = MLP(key, in_size, width, width, 1, last_bias=False)

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch"]:
        return self.net(x).squeeze(-1)


class Continuous(eqx.Module):
    """The part that policies on [-1, 1]^A share."""

    net: MLP

    def likeliest(self, s: Float[Array, "*batch state"]) -> Float[Array, "*batch action"]:
        """The action to take where no chance is wanted."""
        raise NotImplementedError

    def features(self, a: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
        """Actions as other networks see them; 0 for a missing one."""
        return jnp.where(jnp.isnan(a), 0.0, a)

    def error(
        self, s: Float[Array, "*batch state"], a: Float[Array, "*batch action"]
    ) -> Float[Array, "*batch"]:
        """The squared distance of the likeliest action from `a`, averaged over coordinates."""
        squares = (self.likeliest(s) - self.features(a)) ** 2
        return jnp.where(lacking(a), 0.0, jnp.mean(squares, axis=-1))


class TanhGaussian(Continuous):
    """A policy on [-1, 1]^A: the tanh of a Gaussian with state-dependent mean and deviation."""

    def __init__(self, key: Key[Array, ""], state_size: int, action_size: int, width: int):
        self.net = MLP(key, state_size, width, width, 2 * action_size)

    def moments(
        self, s: Float[Array, "*batch state"]
    ) -> tuple[Float[Array, "*batch action"], Float[Array, "*batch action"]]:
        """Mean and log standard deviation before the tanh."""
        mean, log_std = jnp.split(self.net(s), 2, axis=-1)
        return jnp.clip(mean, -MEAN_BOUND, MEAN_BOUND), jnp.clip(log_std, *LOG_STD_BOUNDS)

    def log_prob(
        self, s: Float[Array, "*batch state"], a: Float[Array, "*batch action"]
    ) -> Float[Array, "*batch"]:
        mean, log_std = self.moments(s)
        known = ~lacking(a)
        a = jnp.clip(self.features(a), -1 + ACTION_MARGIN, 1 - ACTION_MARGIN)
        z = (jnp.arctanh(a) - mean) * jnp.exp(-log_std)
        gaussian = -0.5 * (z**2 + jnp.log(2 * jnp.pi)) - log_std
        return jnp.where(known, jnp.sum(gaussian - jnp.log1p(-(a**2)), axis=-1), 0.0)

    def sample(
        self, s: Float[Array, "*batch state"], key: Key[Array, ""]
    ) -> Float[Array, "*batch action"]:
        """Draw an action at each state, differentiable in the policy (reparametrised)."""
        mean, log_std = self.moments(s)
        return jnp.tanh(mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape))

    def likeliest(self, s: Float[Array, "*batch state"]) -> Float[Array, "*batch action"]:
        return jnp.tanh(self.moments(s)[0])

    def expect(
        self,
        s: Float[Array, "n state"],
        function: Callable[[Features, Values], Values],
        key: Key[Array, ""],
    ) -> Values:
        """E_{a~π(s)}[f(features of a, log π(a|s))], by one sample that is differentiable in π."""
        mean, log_std = self.moments(s)
        noise = jax.random.normal(key, mean.shape)
        u = mean + jnp.exp(log_std) * noise
        # Not by `log_prob`, which clips actions: it would be wrong for those beyond the margin.
        gaussian = -0.5 * (noise**2 + jnp.log(2 * jnp.pi)) - log_std
        return function(jnp.tanh(u), jnp.sum(gaussian - log_slope(u), axis=-1))


class TanhMixture(Continuous):
    """A policy on [-1, 1]^A: the tanh of a mixture of Gaussians, all dependent on the state.

    It is for states in which several very different actions are right. One Gaussian would have its
    mean between them, where no action is right.
    """

    size: int = eqx.field(static=True)
    """The number of coordinates of an action."""

    def __init__(
        self, key: Key[Array, ""], state_size: int, action_size: int, width: int, components: int
    ):
        k_net, k_places = jax.random.split(key)
        net = MLP(k_net, state_size, width, width, components * (2 * action_size + 1))
        # Components that begin alike in everything share all rows, or one of them takes all. So
        # they begin apart, each with its own place in every coordinate, and with equal shares; and
        # so in all states, because in some the states' part would bring them together.
        places = jnp.linspace(-APART, APART, components)
        keys = jax.random.split(k_places, action_size)
        means = jax.vmap(jax.random.permutation, in_axes=(0, None))(keys, places).T.ravel()
        biases = net.biases[-1].at[: means.size].set(means)
        weights = jnp.zeros_like(net.weights[-1])
        self.net = eqx.tree_at(lambda x: (x.weights[-1], x.biases[-1]), net, (weights, biases))
        self.size = action_size

    def parts(
        self, s: Float[Array, "*batch state"]
    ) -> tuple[
        Float[Array, "*batch components"],
        Float[Array, "*batch components action"],
        Float[Array, "*batch components action"],
    ]:
        """Log shares, means and log standard deviations of the components, before the tanh."""
        output = self.net(s)
        count = output.shape[-1] // (2 * self.size + 1)
        moments = output[..., :-count].reshape(*output.shape[:-1], 2, count, self.size)
        mean, log_std = moments[..., 0, :, :], moments[..., 1, :, :]
        shares = jax.nn.log_softmax(output[..., -count:])
        return shares, jnp.clip(mean, -MEAN_BOUND, MEAN_BOUND), jnp.clip(log_std, *LOG_STD_BOUNDS)

    def log_prob(
        self, s: Float[Array, "*batch state"], a: Float[Array, "*batch action"]
    ) -> Float[Array, "*batch"]:
        known = ~lacking(a)
        a = jnp.clip(self.features(a), -1 + ACTION_MARGIN, 1 - ACTION_MARGIN)
        inner = log_mixture(*self.parts(s), jnp.arctanh(a))
        return jnp.where(known, inner - jnp.sum(jnp.log1p(-(a**2)), axis=-1), 0.0)

    def sample(
        self, s: Float[Array, "*batch state"], key: Key[Array, ""]
    ) -> Float[Array, "*batch action"]:
        """Draw an action at each state. The draw of a component is not differentiable."""
        shares, mean, log_std = self.parts(s)
        k_which, k_noise = jax.random.split(key)
        which = jax.random.categorical(k_which, shares)
        mean, log_std = (chosen(x, which) for x in (mean, log_std))
        return jnp.tanh(mean + jnp.exp(log_std) * jax.random.normal(k_noise, mean.shape))

    def likeliest(self, s: Float[Array, "*batch state"]) -> Float[Array, "*batch action"]:
        """The mean of the component with the largest share.

        Not the highest density: a component that is narrow and rare would win it.
        """
        shares, mean, _ = self.parts(s)
        return jnp.tanh(chosen(mean, jnp.argmax(shares, axis=-1)))

    def expect(
        self,
        s: Float[Array, "n state"],
        function: Callable[[Features, Values], Values],
        key: Key[Array, ""],
    ) -> Values:
        """E_{a~π(s)}[f(features of a, log π(a|s))], by one sample of each component.

        Summed by their shares, so that it is differentiable in all of π.
        """
        shares, mean, log_std = self.parts(s)
        u = mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)

        def at(u):
            log_prob = log_mixture(shares, mean, log_std, u) - jnp.sum(log_slope(u), axis=-1)
            return function(jnp.tanh(u), log_prob)

        values = jax.vmap(at, in_axes=1, out_axes=1)(u)
        return jnp.sum(jnp.exp(shares) * values, axis=-1)


def log_mixture(
    shares: Float[Array, "*batch components"],
    mean: Float[Array, "*batch components action"],
    log_std: Float[Array, "*batch components action"],
    u: Float[Array, "*batch action"],
) -> Float[Array, "*batch"]:
    """The log density of a mixture of Gaussians; `shares` are the logs of theirs."""
    z = (jnp.expand_dims(u, -2) - mean) * jnp.exp(-log_std)
    gaussian = -0.5 * (z**2 + jnp.log(2 * jnp.pi)) - log_std
    return jax.nn.logsumexp(shares + jnp.sum(gaussian, axis=-1), axis=-1)


def chosen(
    x: Float[Array, "*batch components action"], which: Int[Array, "*batch"]
) -> Float[Array, "*batch action"]:
    """The entries of one component in each row."""
    return jnp.take_along_axis(x, which[..., None, None], axis=-2).squeeze(-2)


def log_slope(u: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
    """log(1 - tanh²u), also where that is tiny."""
    return 2 * (jnp.log(2.0) - u - jax.nn.softplus(-2 * u))


class Categorical(eqx.Module):
    """A policy over the actions 0 .. n-1."""

    net: MLP

    def __init__(self, key: Key[Array, ""], state_size: int, count: int, width: int):
        self.net = MLP(key, state_size, width, width, count)

    def log_prob(
        self, s: Float[Array, "*batch state"], a: Int[Array, "*batch"]
    ) -> Float[Array, "*batch"]:
        log_probs = jax.nn.log_softmax(self.net(s))
        chosen = jnp.take_along_axis(log_probs, jnp.expand_dims(a, -1), axis=-1).squeeze(-1)
        return jnp.where(lacking(a), 0.0, chosen)

    def sample(self, s: Float[Array, "*batch state"], key: Key[Array, ""]) -> Int[Array, "*batch"]:
        """Draw an action at each state; unlike `expect`, this is not differentiable."""
        return jax.random.categorical(key, self.net(s))

    def features(self, a: Int[Array, "*batch"]) -> Float[Array, "*batch count"]:
        """Actions as other networks see them: one-hot, and all zero for a missing one."""
        return jax.nn.one_hot(a, self.net.weights[-1].shape[-1])

    def expect(
        self,
        s: Float[Array, "n state"],
        function: Callable[[Features, Values], Values],
        key: Key[Array, ""],
    ) -> Values:
        """E_{a~π(s)}[f(features of a, log π(a|s))], summed over all actions."""
        del key
        log_probs = jax.nn.log_softmax(self.net(s))

        def at(one_hot, log_prob):
            return function(jnp.broadcast_to(one_hot, log_probs.shape), log_prob)

        values = jax.vmap(at)(jnp.eye(log_probs.shape[-1]), log_probs.T)
        return jnp.sum(jnp.exp(log_probs.T) * values, axis=0)

    def error(
        self, s: Float[Array, "*batch state"], a: Int[Array, "*batch"]
    ) -> Float[Array, "*batch"]:
        """0 if the likeliest action is `a`, else 1."""
        right = jnp.argmax(self.net(s), axis=-1) == a
        return jnp.where(right | lacking(a), 0.0, 1.0)


PolicyNet = TanhGaussian | TanhMixture | Categorical


def make_policy(
    key: Key[Array, ""], state_size: int, space: ActionSpace, width: int, components: int = 1
) -> PolicyNet:
    """A fresh policy with the head that fits the action space."""
    if not isinstance(space, Box):
        return Categorical(key, state_size, space.n, width)
    if components == 1:
        return TanhGaussian(key, state_size, space.size, width)
    return TanhMixture(key, state_size, space.size, width, components)
