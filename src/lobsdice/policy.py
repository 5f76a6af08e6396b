"""A trained policy, ready to act: NumPy alone, in the user's units on both sides."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from lobsdice.data import Normaliser
from lobsdice.errors import LobsDICEError
from lobsdice.files import atomic
from lobsdice.spaces import ActionSpace, Box, Discrete

Action = Float32[np.ndarray, "*n action"] | Int64[np.ndarray, "*n"] | np.int64

#: The limits that training puts on a Gaussian's mean and log standard deviation.
MEAN_BOUND = 7.0
LOG_STD_BOUNDS = (-5.0, 2.0)


@dataclass(frozen=True, eq=False)
class Policy:
    """From an observation, or an array of them, to an action."""

    weights: tuple[Float32[np.ndarray, "_ _"], ...]
    biases: tuple[Float32[np.ndarray, " _"], ...]
    normaliser: Normaliser
    action_space: ActionSpace

    def __call__(self, observation, random: np.random.Generator | None = None) -> Action:
        """The likeliest action; with a generator, a random one from the policy's distribution."""
        output = self._network(np.asarray(observation, np.float32))
        if isinstance(self.action_space, Discrete):
            if random is not None:
                output = output + random.gumbel(size=output.shape)
            return output.argmax(axis=-1)
        size = output.shape[-1] // 2
        mean = np.clip(output[..., :size], -MEAN_BOUND, MEAN_BOUND)
        if random is not None:
            log_std = np.clip(output[..., size:], *LOG_STD_BOUNDS)
            mean = mean + np.exp(log_std) * random.standard_normal(mean.shape, np.float32)
        return self._centre + self._half * np.tanh(mean)

    def predict(self, observation, state=None, episode_start=None, deterministic: bool = True):
        """`(action, state)`, as users of Stable-Baselines3 expect."""
        del episode_start
        return self(observation, None if deterministic else np.random.default_rng()), state

    def save(self, path: str | Path) -> None:
        """Write the policy to one file, for `load_policy`."""
        arrays = {f"weight_{i}": w for i, w in enumerate(self.weights)}
        arrays |= {f"bias_{i}": b for i, b in enumerate(self.biases)}
        arrays |= {"mean": self.normaliser.mean, "scale": self.normaliser.scale}
        facts = {"indicator": self.normaliser.indicator, "action_space": to_json(self.action_space)}
        with atomic(path) as temporary:
            save_file(arrays, temporary, metadata={"lobsdice_policy": json.dumps(facts)})

    def _network(self, observation: np.ndarray) -> np.ndarray:
        normaliser = self.normaliser
        x = (observation - normaliser.mean) / normaliser.scale
        if normaliser.indicator:
            x = np.concatenate([x, np.zeros_like(x[..., :1])], axis=-1)
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = x @ w
            x += b
            np.maximum(x, 0, out=x)
        return x @ self.weights[-1] + self.biases[-1]

    @cached_property
    def _centre(self) -> np.ndarray:
        return self._box.decode(np.zeros(self._box.size, np.float32))

    @cached_property
    def _half(self) -> np.ndarray:
        return self._box.decode(np.ones(self._box.size, np.float32)) - self._centre

    @property
    def _box(self) -> Box:
        assert isinstance(self.action_space, Box)
        return self.action_space


def load_policy(path: str | Path) -> Policy:
    """The policy that `Policy.save` wrote. Nothing is unpickled, and JAX is not needed."""
    try:
        with safe_open(path, framework="numpy") as file:
            facts = json.loads((file.metadata() or {})["lobsdice_policy"])
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        layers = sum(key.startswith("weight_") for key in arrays)
        return Policy(
            weights=tuple(arrays[f"weight_{i}"] for i in range(layers)),
            biases=tuple(arrays[f"bias_{i}"] for i in range(layers)),
            normaliser=Normaliser(arrays["mean"], arrays["scale"], facts["indicator"]),
            action_space=space_from_json(facts["action_space"]),
        )
    except FileNotFoundError as error:
        raise LobsDICEError(f"{path}: there is no such file") from error
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise LobsDICEError(f"{path}: not a policy that lobsdice wrote") from error


def to_json(space: ActionSpace) -> dict:
    """An action space as plain data."""
    if isinstance(space, Box):
        return {"low": list(space.low), "high": list(space.high)}
    return {"n": space.n}


def space_from_json(facts: dict) -> ActionSpace:
    """The inverse of `to_json`."""
    return Discrete(facts["n"]) if "n" in facts else Box.of(facts["low"], facts["high"])
