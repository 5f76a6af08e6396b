"""A trained policy, ready to act: NumPy alone, in the user's units on both sides."""

import json
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int64
from safetensors import SafetensorError
from safetensors.numpy import save

from lobsdice.data.checksums import read_checked, with_checksums
from lobsdice.data.display import listed
from lobsdice.data.files import atomic
from lobsdice.data.foreign import reason
from lobsdice.data.normaliser import Normaliser
from lobsdice.data.spaces import (
    LOG_STD_BOUNDS,
    MEAN_BOUND,
    ActionSpace,
    Box,
    Discrete,
    space_from_json,
)
from lobsdice.errors import LobsDICEError, NotFiniteError

#: Real numbers, or the number of a discrete action.
Action = Float32[np.ndarray, "*n action"] | Int64[np.ndarray, "*n"] | np.int64
#: The name of a discrete action that has one, or an array of names. Type checkers are not told:
#: few recordings have names, and all others would need a cast wherever an action is used.
Name = Any

#: The key of the file's metadata that holds everything but the arrays.
FACTS = "lobsdice_policy"

#: Observations this many deviations from the mean must still have an action.
REACH = 1000


class Bounds(NamedTuple):
    """The map of actions from [-1, 1] to the user's units."""

    centre: Float32[np.ndarray, " action"]
    half: Float32[np.ndarray, " action"]
    low: Float32[np.ndarray, " action"]
    high: Float32[np.ndarray, " action"]


@dataclass(frozen=True, eq=False, repr=False)
class Policy:
    """A function from an observation, or an array of them, to an action."""

    weights: tuple[Float32[np.ndarray, "_ _"], ...]
    biases: tuple[Float32[np.ndarray, " _"], ...]
    normaliser: Normaliser
    action_space: ActionSpace

    def __call__(self, observation, random: np.random.Generator | None = None) -> Action | Name:
        """The likeliest action; with a generator, a random one from the policy's distribution.

        It is in the user's units: a name such as "left", if the recordings have names.
        """
        action = self.act(observation, random)
        if isinstance(self.action_space, Discrete) and self.action_space.names:
            return np.array(self.action_space.names)[action]
        return action

    def act(self, observation, random: np.random.Generator | None = None) -> Action:
        """The same as a number where actions have names, as environments take it."""
        if isinstance(self.action_space, Discrete):
            return self.scores(observation, random).argmax(axis=-1)
        if self.components > 1:
            scores, actions = self.options(observation, random)
            which = scores.argmax(axis=-1)[..., None, None]
            return np.take_along_axis(actions, which, axis=-2).squeeze(-2)
        output = self._network(observation)
        size = output.shape[-1] // 2
        mean = np.clip(output[..., :size], -MEAN_BOUND, MEAN_BOUND)
        if random is not None:
            std = np.exp(np.clip(output[..., size:], *LOG_STD_BOUNDS))
            mean = mean + std * random.standard_normal(mean.shape, np.float32)
        return self._in_units(mean)

    def options(
        self, observation, random: np.random.Generator | None = None
    ) -> tuple[Float[np.ndarray, "*n components"], Float32[np.ndarray, "*n components action"]]:
        """The scores of a mixture's components, and the action of each.

        The score is the log share up to a constant, plus noise if random; the highest one acts.
        """
        output, count = self._network(observation), self.components
        scores, moments = output[..., -count:], output[..., :-count]
        mean, log_std = np.split(moments.reshape(*scores.shape[:-1], 2 * count, -1), 2, axis=-2)
        mean = np.clip(mean, -MEAN_BOUND, MEAN_BOUND)
        if random is not None:
            # One draw for all components: only one of them acts.
            noise = random.standard_normal((*mean.shape[:-2], 1, mean.shape[-1]), np.float32)
            mean = mean + np.exp(np.clip(log_std, *LOG_STD_BOUNDS)) * noise
            scores = scores + random.gumbel(size=scores.shape)
        return scores, self._in_units(mean)

    def _in_units(self, inner: np.ndarray) -> Float32[np.ndarray, "*n action"]:
        """Actions in the user's units, from numbers before the tanh."""
        centre, half, low, high = self.bounds
        # Rounding may put the sum a last digit beyond a bound, which Gymnasium's spaces refuse.
        return np.minimum(np.maximum(centre + half * np.tanh(inner), low), high)

    def __repr__(self) -> str:
        names = self.normaliser.names
        width = f"{len(self.normaliser.mean)} observed numbers{': ' if names else ''}"
        return f"Policy({width}{listed(names)}; {self.action_space})"

    def scores(
        self, observation, random: np.random.Generator | None = None
    ) -> Float[np.ndarray, "*n actions"]:
        """The log probability of each discrete action up to a constant, plus noise if random."""
        scores = self._network(observation)
        return scores if random is None else scores + random.gumbel(size=scores.shape)

    def predict(self, observation, state=None, episode_start=None, deterministic: bool = True):
        """The pair `(action, state)`, as users of Stable-Baselines3 expect."""
        del episode_start
        return self(observation, None if deterministic else np.random.default_rng()), state

    def save(self, path: str | Path) -> None:
        """Write the policy to one file, which `load_policy` reads."""
        with atomic(path) as temporary:
            temporary.write_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The contents of the file that `save` writes."""
        arrays = {f"weight_{i}": w for i, w in enumerate(self.weights)}
        arrays |= {f"bias_{i}": b for i, b in enumerate(self.biases)}
        arrays |= {"mean": self.normaliser.mean, "scale": self.normaliser.scale}
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        facts = {
            "action_space": self.action_space.to_json(),
            "observation_names": self.normaliser.names,
        }
        return save(arrays, metadata={FACTS: json.dumps(with_checksums(facts, arrays))})

    def _network(self, observation) -> np.ndarray:
        with np.errstate(over="ignore"):  # a number that is too large is refused below
            x = np.asarray(observation, np.float32)
        _check_observation(x, len(self.normaliser.mean))
        x = self.normaliser(x)
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = x @ w
            x += b
            np.maximum(x, 0, out=x)
        return x @ self.weights[-1] + self.biases[-1]

    def layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The weights and biases of each layer, for exports."""
        return list(zip(self.weights, self.biases, strict=True))

    @cached_property
    def components(self) -> int:
        """The number of Gaussians of a policy of continuous actions; 1 for discrete ones."""
        return _components(self.action_space, self.biases[-1].size)

    @cached_property
    def bounds(self) -> Bounds:
        """The bounds of actions in a box."""
        box = self.action_space
        assert isinstance(box, Box)
        centre, end = (box.decode(np.full(box.size, x, np.float32)) for x in (0, 1))
        return Bounds(
            centre, end - centre, np.asarray(box.low, np.float32), np.asarray(box.high, np.float32)
        )


def _check_observation(x: np.ndarray, width: int) -> None:
    """Raise on observations that would silently give a useless action."""
    if x.shape[-1:] != (width,):
        raise LobsDICEError(
            f"the policy takes observations of {width} numbers, not of shape {x.shape}"
        )
    if not (finite := np.isfinite(x)).all():
        place = np.argwhere(~finite)[0].tolist()
        raise NotFiniteError(
            f"the policy takes finite 32-bit numbers, but observation{place} is {x[tuple(place)]}"
        )


def load_policy(path: str | Path) -> Policy:
    """Read a policy that `Policy.save` wrote, or the last policy of a run folder's first run.

    Nothing is unpickled, and JAX is not needed.
    """
    if (inside := Path(path) / policy_name("last", 0)).exists():
        path = inside
    elif Path(path).is_dir():
        raise LobsDICEError(f"{path}: the folder has no policy; name a run folder, or a file")
    try:
        facts, arrays = read_checked(path, FACTS)
        layers = range(sum(key.startswith("weight_") for key in arrays))
        if facts.get("indicator"):  # by an earlier version: an input that is 0 in use
            arrays["weight_0"] = arrays["weight_0"][:-1]
        policy = Policy(
            weights=tuple(arrays[f"weight_{i}"] for i in layers),
            biases=tuple(arrays[f"bias_{i}"] for i in layers),
            normaliser=Normaliser(
                arrays["mean"], arrays["scale"], _names(facts.get("observation_names", []))
            ),
            action_space=space_from_json(facts["action_space"]),
        )
        _check(policy)
    except FileNotFoundError as error:
        raise LobsDICEError(f"{path}: there is no such file") from error
    except (SafetensorError, LobsDICEError, LookupError, TypeError, ValueError, OSError) as error:
        raise LobsDICEError(
            f"{path}: not a policy that lobsdice wrote ({reason(error)})"
        ) from error
    return policy


def policy_name(which: str, run: int) -> str:
    """The path of a run's `last`, `best` or `selected` policy within a run folder."""
    return f"policies/{which}-{run}.safetensors"


def _names(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ValueError("its observation names are not a list of texts")
    return tuple(found)


def _components(space: ActionSpace, outputs: int) -> int:
    """The number of components of a policy with so many outputs; raise if there is none such.

    One Gaussian needs a mean and a deviation for each coordinate. A mixture needs these and a share
    for each component, so that no number of outputs has two meanings.
    """
    alone = 2 * space.size if isinstance(space, Box) else space.n
    if outputs == alone:
        return 1
    count, rest = divmod(outputs, alone + 1)
    if isinstance(space, Discrete) or rest or count < 2:
        raise ValueError("its arrays do not fit each other")
    return count


def _check(policy: Policy) -> None:
    """Raise unless the arrays fit each other: a file may have been edited."""
    normaliser = policy.normaliser
    width = len(normaliser.mean)
    sizes = [width, *(b.size for b in policy.biases)]
    wanted = [*pairwise(sizes), *((n,) for n in sizes[1:]), (width,), (width,)]
    arrays = (*policy.weights, *policy.biases, normaliser.mean, normaliser.scale)
    if [x.shape for x in arrays] != wanted or len(sizes) < 2:
        raise ValueError("its arrays do not fit each other")
    _components(policy.action_space, sizes[-1])
    if len(normaliser.names) not in (0, width):
        raise ValueError(f"it has {len(normaliser.names)} names for {width} observed numbers")
    if not all(x.dtype == np.float32 and np.isfinite(x).all() for x in arrays):
        raise ValueError("its arrays are not all finite float32 numbers")
    if not (normaliser.scale > 0).all():
        raise ValueError("its scale of observations is not positive")
    if not np.isfinite(_largest_output(policy)):
        raise ValueError("its numbers are so large that actions would be none")


def _largest_output(policy: Policy) -> np.float32:
    """A bound on all sums in the network, for observations within `REACH` deviations."""
    with np.errstate(over="ignore", invalid="ignore"):
        bound = np.full(len(policy.normaliser.mean), REACH, np.float32)
        for weight, bias in policy.layers():
            bound = bound @ np.abs(weight) + np.abs(bias)
    return bound.max()
