"""A world that was learned from logs, ready to act in: NumPy alone, in the user's units.

An ensemble of networks maps a state and an action to a mixture of Gaussians of the movement s' - s.
Another network gives the probability that an episode ends in a state. Where the members of the
ensemble disagree, the logs say too little, and nothing that happens there should be believed.
`training.rehearsal` learns such a world.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int64
from safetensors import SafetensorError
from safetensors.numpy import save

from lobsdice.data.checksums import read_checked, with_checksums
from lobsdice.data.files import atomic
from lobsdice.data.foreign import reason
from lobsdice.data.normaliser import Normaliser
from lobsdice.data.spaces import ActionSpace, Box, space_from_json
from lobsdice.errors import LobsDICEError

#: Limits on the log standard deviation of a movement, in units of the logs' movements.
LOG_STD_BOUNDS = (-5.0, 2.0)
#: States may leave the range of the logs by this share of it on each side.
MARGIN = 0.1
#: The key of the file's metadata that holds everything but the arrays.
FACTS = "lobsdice_world"
#: The name of the file of a world in a run folder.
WORLD = "world.safetensors"
#: The networks of a world.
NETWORKS = ("move", "end")

States = Float32[np.ndarray, "n state"]
Layers = tuple[tuple[np.ndarray, np.ndarray], ...]


class Mixture(NamedTuple):
    """Each member's prediction of the movements from some states, in normalised units."""

    log_share: Float32[np.ndarray, "members n parts"]
    mean: Float32[np.ndarray, "members n parts state"]
    std: Float32[np.ndarray, "members n parts state"]

    @property
    def expected(self) -> Float32[np.ndarray, "members n state"]:
        """The mean movement."""
        return np.einsum("mnp,mnps->mns", np.exp(self.log_share), self.mean)


@dataclass(frozen=True, eq=False)
class LearnedWorld:
    """An ensemble that answers what a step leads to, and whether the episode ends there."""

    move: Layers
    """Weights and biases, each with a leading axis of members."""
    end: Layers
    normaliser: Normaliser
    action_space: ActionSpace
    move_scale: Float32[np.ndarray, " state"]
    """The standard deviation of the logs' movements, between normalised states."""
    low: Float32[np.ndarray, " state"]
    high: Float32[np.ndarray, " state"]
    """The range of the logs' normalised states, with a margin. Rehearsed states stay in it."""
    starts: States
    """First states of the logs, in the user's units."""
    demonstrated: Float32[np.ndarray, "shown state"]
    """Demonstrated states, in the user's units."""
    inferred: Float32[np.ndarray, "shown action"]
    """The actions of the logs in the movements most like theirs, as `ActionSpace.encode` gives
    them; numbers of discrete actions, in one column."""
    end_mass: float
    """The factor by which the network of ends saw too many ends."""
    limit: float
    """Members that differ by more than this say nothing."""
    about: dict[str, Any]
    """Plain data: the held-out errors, and the fingerprint of the training data."""

    @property
    def members(self) -> int:
        """The number of networks in the ensemble."""
        return len(self.move[0][0])

    def mixtures(self, s: States, actions: np.ndarray) -> Mixture:
        """The movements from normalised states after actions in the user's units."""
        return as_mixture(network(self.move, self.inputs(s, actions)), self.move_scale)

    def inputs(self, s: States, actions: np.ndarray) -> Float32[np.ndarray, "n inputs"]:
        """States beside actions, as the networks see them."""
        space = self.action_space
        if isinstance(space, Box):
            seen = space.encode(actions)
        else:
            seen = np.eye(space.n, dtype=np.float32)[actions]
        return np.concatenate([s, seen], axis=1)

    def disagreement(self, found: Mixture) -> Float32[np.ndarray, " n"]:
        """The distance between the members' mean movements, in units of the logs' movements.

        It is the standard deviation over the members, as a root mean square over the features.
        """
        apart = found.expected.std(axis=0) / self.move_scale
        return np.sqrt(np.mean(apart**2, axis=-1))

    def ends(self, s: States) -> Float32[np.ndarray, "members n"]:
        """The probability that an episode ends in these normalised states, by each member."""
        logit = network(self.end, s)[..., 0] - math.log(self.end_mass)
        return 1 / (1 + np.exp(-np.clip(logit, -50, 50)))

    def step(
        self,
        s: States,
        actions: np.ndarray,
        member: Int64[np.ndarray, " n"],
        random: np.random.Generator,
    ) -> tuple[States, Bool[np.ndarray, " n"], Float32[np.ndarray, " n"]]:
        """Draw the next normalised states by one member each.

        Also returns where the episode ends, and how far the members disagree about the step.
        """
        found, rows = self.mixtures(s, actions), np.arange(len(s))
        gumbel = random.gumbel(size=found.log_share.shape[1:])
        part = (found.log_share[member, rows] + gumbel).argmax(axis=1)
        mean, std = (x[member, rows, part] for x in (found.mean, found.std))
        s_next = s + mean + std * random.standard_normal(s.shape, np.float32)
        s_next = np.clip(s_next, self.low, self.high)
        ended = random.random(len(s)) < self.ends(s_next)[member, rows]
        return s_next, ended, self.disagreement(found)

    def raw(self, s: Float32[np.ndarray, "*n state"]) -> Float32[np.ndarray, "*n state"]:
        """Normalised states in the user's units."""
        return (s * self.normaliser.scale + self.normaliser.mean).astype(np.float32)

    def save(self, path: str | Path) -> None:
        """Write the world to one file, which `load_world` reads."""
        arrays = {"move_scale": self.move_scale, "low": self.low, "high": self.high}
        arrays |= {"mean": self.normaliser.mean, "scale": self.normaliser.scale}
        arrays |= {name: getattr(self, name) for name in ("starts", "demonstrated", "inferred")}
        for name in NETWORKS:
            for i, (weight, bias) in enumerate(getattr(self, name)):
                arrays |= {f"{name}_weight_{i}": weight, f"{name}_bias_{i}": bias}
        arrays = {name: np.ascontiguousarray(x, np.float32) for name, x in arrays.items()}
        facts = {
            "action_space": self.action_space.to_json(),
            "observation_names": self.normaliser.names,
            "end_mass": self.end_mass,
            "limit": self.limit,
            "about": self.about,
        }
        with atomic(path) as temporary:
            temporary.write_bytes(
                save(arrays, metadata={FACTS: json.dumps(with_checksums(facts, arrays))})
            )


def network(layers: Layers, x: Float32[np.ndarray, "n inputs"]) -> np.ndarray:
    """The outputs of each member: (members, n, outputs)."""
    y = x
    for i, (weight, bias) in enumerate(layers):
        y = y @ weight
        y += bias[:, None]
        if i < len(layers) - 1:
            np.maximum(y, 0, out=y)
    return y


def as_mixture(output: np.ndarray, move_scale: np.ndarray) -> Mixture:
    """The mixture that a network's output stands for."""
    size = len(move_scale)
    parts = output.shape[-1] // (1 + 2 * size)
    logit, rest = output[..., :parts], output[..., parts:]
    mean, log_std = np.split(rest.reshape(*rest.shape[:-1], parts, 2 * size), 2, axis=-1)
    top = logit.max(axis=-1, keepdims=True)
    log_share = logit - top - np.log(np.exp(logit - top).sum(axis=-1, keepdims=True))
    std = np.exp(np.clip(log_std, *LOG_STD_BOUNDS))
    return Mixture(log_share, mean * move_scale, std * move_scale)


def load_world(path: str | Path) -> LearnedWorld:
    """Read a world that `LearnedWorld.save` wrote. Nothing is unpickled, and JAX is not needed."""
    try:
        facts, arrays = read_checked(path, FACTS)
        world = _from(facts, arrays)
        _check(world)
    except FileNotFoundError as error:
        raise LobsDICEError(f"{path}: there is no such file") from error
    except (SafetensorError, LobsDICEError, LookupError, TypeError, ValueError, OSError) as error:
        raise LobsDICEError(
            f"{path}: not a learned world that lobsdice wrote ({reason(error)})"
        ) from error
    return world


def _from(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> LearnedWorld:
    def layers(name: str) -> Layers:
        count = sum(key.startswith(f"{name}_weight_") for key in arrays)
        return tuple(
            (arrays[f"{name}_weight_{i}"], arrays[f"{name}_bias_{i}"]) for i in range(count)
        )

    names = tuple(map(str, facts["observation_names"]))
    return LearnedWorld(
        move=layers("move"),
        end=layers("end"),
        normaliser=Normaliser(arrays["mean"], arrays["scale"], names),
        action_space=space_from_json(facts["action_space"]),
        move_scale=arrays["move_scale"],
        low=arrays["low"],
        high=arrays["high"],
        starts=arrays["starts"],
        demonstrated=arrays["demonstrated"],
        inferred=arrays["inferred"],
        end_mass=float(facts["end_mass"]),
        limit=float(facts["limit"]),
        about=dict(facts["about"]),
    )


def _check(world: LearnedWorld) -> None:
    """Raise unless the arrays fit each other: a file may have been edited."""
    arrays = [x for name in NETWORKS for layer in getattr(world, name) for x in layer]
    arrays += [world.move_scale, world.low, world.high, world.starts, *world.normaliser[:2]]
    arrays += [world.demonstrated, world.inferred]
    if not all(x.dtype == np.float32 and np.isfinite(x).all() for x in arrays):
        raise ValueError("its arrays are not all finite float32 numbers")
    s = np.zeros((1, len(world.low)), np.float32)
    box = isinstance(world.action_space, Box)
    action = np.zeros((1, world.action_space.feature_size), np.float32) if box else np.zeros(1, int)
    if world.starts.shape[1:] != world.low.shape or not len(world.starts):
        raise ValueError("its first states do not fit its states")
    if world.demonstrated.shape != (len(world.inferred), len(world.low)):
        raise ValueError("its demonstrated states do not fit its actions or its states")
    world.step(s, action, np.zeros(1, np.int64), np.random.default_rng(0))


class Rehearsal:
    """A learned world with the interface of Gymnasium, for one episode at a time.

    An episode is truncated after `horizon` steps, or where the members disagree: from there on
    nothing can be said. There is no reward.
    """

    def __init__(self, world: LearnedWorld, horizon: int, *, starts: States | None = None):
        self.world, self.horizon = world, horizon
        self.starts = world.starts if starts is None else starts
        self.action_space = None
        self.why = ""
        """Why the last episode stopped."""

    def reset(self, *, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.random = np.random.default_rng(seed)
        self.member = self.random.integers(self.world.members, size=1)
        self.steps = 0
        self.s = self.world.normaliser(self.starts[self.random.integers(len(self.starts))][None])
        return self.world.raw(self.s)[0], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        actions = np.asarray(action)[None]
        self.s, ended, disagreement = self.world.step(self.s, actions, self.member, self.random)
        self.steps += 1
        guessing = bool(disagreement[0] > self.world.limit)
        terminated = bool(ended[0]) and not guessing
        truncated = guessing or self.steps >= self.horizon
        if terminated or truncated:
            self.why = (
                "the model is guessing" if guessing else "it ends" if terminated else "time is up"
            )
        return self.world.raw(self.s)[0], 0.0, terminated, truncated, {}
