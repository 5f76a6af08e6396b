"""The behaviour policies of the tasks' data: trained or scripted ones, and a uniform one.

The worlds have scripted controllers. The MuJoCo tasks have two policies each, made for this project
with soft actor-critic. A file `policies/<task>_<source>.npz` holds w0, b0, w1, b1, w2, b2 of a ReLU
network whose last layer gives [mean, log_std]. Tasks with noise have the policies of those without.

To replace a policy, replace its file, set its noise in `table.py`, and measure the references of
the task and of its noisy version again (`references.py`). `benchmarks/train_policies.py` trains
policies. Cached episodes are collected anew by themselves.
"""

import hashlib
import importlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from lobsdice.data.spaces import ActionSpace, Box
from lobsdice.environments.gym import Act
from lobsdice.environments.tasks.table import TASKS, MuJoCo, Spec, World, family

FOLDER = Path(__file__).with_name("policies")
WORLDS_FOLDER = Path(__file__).parent.with_name("worlds")

#: The range that log_std was clipped to in training.
LOG_STD = (np.float32(-10), np.float32(2))

State = Float32[np.ndarray, " state"]
Action = Float32[np.ndarray, " action"]
Layer = tuple[Float32[np.ndarray, "_ _"], Float32[np.ndarray, " _"]]


@dataclass(frozen=True, eq=False)
class TrainedBehaviour:
    """a = tanh(mean(s) + noise · std(s) · N(0, 1)), in [-1, 1]."""

    layers: tuple[Layer, ...]
    noise: float

    def __call__(self, observation: State, random: np.random.Generator) -> Action:
        hidden = observation
        for weights, bias in self.layers[:-1]:
            hidden = np.maximum(_affine(hidden, weights, bias), 0)
        output = _affine(hidden, *self.layers[-1])
        size = len(output) // 2
        mean = output[:size]
        if self.noise:
            log_std = np.minimum(np.maximum(output[size:], LOG_STD[0]), LOG_STD[1])
            normal = random.standard_normal(size, dtype=np.float32)
            mean = mean + np.float32(self.noise) * np.exp(log_std) * normal
        return np.tanh(mean)


@dataclass(frozen=True)
class Uniform:
    """Actions drawn uniformly from the space."""

    space: ActionSpace

    def __call__(self, observation: State, random: np.random.Generator) -> Action | int:
        if not isinstance(self.space, Box):
            return int(random.integers(self.space.n))
        return random.uniform(self.space.low, self.space.high).astype(np.float32)


def behaviour_of(spec: Spec, source: str) -> Act:
    """The behaviour policy of a source."""
    if source == "random":
        return Uniform(spec.action_space)
    if isinstance(spec, World):
        return importlib.import_module(spec.module).CONTROLLERS[source]
    assert isinstance(spec, MuJoCo)
    with np.load(policy_file(spec, source), allow_pickle=False) as file:
        layers = tuple((file[f"w{i}"], file[f"b{i}"]) for i in range(len(file.files) // 2))
    return TrainedBehaviour(layers, spec.noise[source])


def policy_file(spec: Spec, source: str) -> Path:
    """The file of a source's shipped policy."""
    return FOLDER / f"{family(spec.name)}_{source}.npz"


def files_of(spec: Spec) -> list[Path]:
    """The files that a task's episodes depend on: shipped policies, and our code of a world."""
    assert isinstance(spec, MuJoCo | World)
    shipped = sorted(spec.noise) if isinstance(spec, MuJoCo) else []
    module, _, _ = (spec.entry_point or "").partition(":")
    code = [WORLDS_FOLDER / f"{module.rpartition('.')[2]}.py"] if module else []
    return [*(policy_file(spec, source) for source in shipped), *code]


def policies_digest() -> str:
    """A digest of all shipped policies and their noise."""
    digest = hashlib.sha256()
    for spec in TASKS.values():
        digest.update(json.dumps(spec.noise, sort_keys=True).encode())
        for source in sorted(spec.noise):
            digest.update(policy_file(spec, source).read_bytes())
    return digest.hexdigest()[:16]


def _affine(x: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    # Not `x @ weights`: the rounding of BLAS depends on its build, the processor and the number of
    # threads, and a different last bit gives a different trajectory. This takes 5 % of a step.
    return np.einsum("i,ij->j", x, weights) + bias
