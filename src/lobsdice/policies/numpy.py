"""A policy as one Python file that needs nothing but NumPy, weights included."""

import base64
import json
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lobsdice import __version__
from lobsdice.data.actions import numbered_texts
from lobsdice.data.files import atomic
from lobsdice.data.spaces import LOG_STD_BOUNDS, MEAN_BOUND, ActionSpace, Box
from lobsdice.errors import LobsDICEError
from lobsdice.policies.agreement import Rows, require_agreement, some_of
from lobsdice.policies.contract import NO_UNITS, Units, check_facts, write_contract
from lobsdice.policies.policy import Policy

#: Seconds that the check may take in a fresh interpreter.
PATIENCE = 300

START = '''\
"""A policy, written by lobsdice {version}. It needs Python 3.9 or newer and NumPy.

`predict` maps one observation of {width} numbers, or an array of them, to {actions}.
Both are in the units of the recordings. Without a generator the action is the likeliest one.
With a generator it is drawn from the policy's distribution:

    predict(observation)
    predict(observation, np.random.default_rng(0))
"""

import base64

import numpy as np

OBSERVATION_SIZE = {width}
OBSERVATION_NAMES = {names}
ACTION_SPACE = {space}


def predict(observation, random=None):
    """The action for an observation, or the actions for an array of them."""
    x = np.asarray(observation, np.float32)
    if x.shape[-1:] != (OBSERVATION_SIZE,):
        wanted = f"observations of {{OBSERVATION_SIZE}} numbers"
        raise ValueError(f"the policy takes {{wanted}}, not of shape {{x.shape}}")
    if not np.isfinite(x).all():
        raise ValueError(f"the policy takes finite numbers, not {{x}}")
    x = (x - MEAN) / SCALE
    for weight, bias in LAYERS[:-1]:
        x = np.maximum(x @ weight + bias, 0)
    weight, bias = LAYERS[-1]
    return _action(x @ weight + bias, random)


'''

BOX = """\
def _action(output, random):
    size = output.shape[-1] // 2
    x = np.clip(output[..., :size], {mean_low}, {mean_high})
    if random is not None:
        std = np.exp(np.clip(output[..., size:], {std_low}, {std_high}))
        x = x + std * random.standard_normal(x.shape, np.float32)
    return np.minimum(np.maximum(CENTRE + HALF * np.tanh(x), LOW), HIGH)


"""

MIXTURE = """\
def _action(output, random):
    scores, moments = output[..., -{count}:], output[..., :-{count}]
    mean, log_std = np.split(moments.reshape(*scores.shape[:-1], 2 * {count}, -1), 2, axis=-2)
    if random is not None:
        shape = (*mean.shape[:-2], mean.shape[-1])
        noise = random.standard_normal(shape, np.float32)
        scores = scores + random.gumbel(size=scores.shape)
    which = scores.argmax(axis=-1)[..., None, None]
    mean, log_std = (np.take_along_axis(x, which, axis=-2).squeeze(-2) for x in (mean, log_std))
    x = np.clip(mean, {mean_low}, {mean_high})
    if random is not None:
        x = x + np.exp(np.clip(log_std, {std_low}, {std_high})) * noise
    return np.minimum(np.maximum(CENTRE + HALF * np.tanh(x), LOW), HIGH)


"""

DISCRETE = """\
def _action(output, random):
    if random is not None:
        output = output + random.gumbel(size=output.shape)
    return output.argmax(axis=-1)


"""

NAMED = DISCRETE.replace(
    "return output.argmax(axis=-1)",
    'return np.array(ACTION_SPACE["names"])[output.argmax(axis=-1)]',
)

ARRAY = '''\
def _array(shape, text):
    """float32, the lowest byte first, in base64."""
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float32).reshape(shape)


'''

#: The program of the interpreter that checks a file.
CHECK = """\
import runpy, sys
import numpy as np
file, rows, actions, seed = sys.argv[1:]
random = np.random.default_rng(int(seed)) if seed else None
np.save(actions, runpy.run_path(file)["predict"](np.load(rows), random))
"""


def export_numpy(
    policy: Policy,
    path: str | Path,
    observations,
    *,
    units: Units = NO_UNITS,
    rate: float | int | None = None,
) -> float:
    """Write a Python file; return the largest difference of its actions from the policy's.

    It is measured on `observations`, as a share of the actions' range. A file that differs by more
    than 1e-5 is not written. `units` and `rate` are for the contract, as in `export_onnx`.
    """
    path = Path(path)
    check_facts(policy, units, rate)
    rows = some_of(policy, observations)
    with atomic(path) as temporary:
        temporary.write_text(to_source(policy), encoding="utf-8")
        act = Interpreter(temporary, policy.action_space)
        found = [
            require_agreement(path, policy, rows, act, stochastic=stochastic)
            for stochastic in (False, True)
        ]
    write_contract(policy, path, units, rate)
    return max(found)


def to_source(policy: Policy) -> str:
    """The text of the file."""
    space, normaliser = policy.action_space, policy.normaliser
    box = isinstance(space, Box)
    start = START.format(
        version=__version__,
        width=len(normaliser.mean),
        names=_list(normaliser.names),
        space=json.dumps(space.to_json()),
        actions=_answer(space),
    )
    limits: dict[str, float] = dict(zip(("std_low", "std_high"), LOG_STD_BOUNDS, strict=True))
    limits |= {"mean_low": -MEAN_BOUND, "mean_high": MEAN_BOUND, "count": policy.components}
    discrete = NAMED if space.names else DISCRETE
    act = (BOX if policy.components == 1 else MIXTURE).format(**limits) if box else discrete
    arrays = {"MEAN": normaliser.mean, "SCALE": normaliser.scale}
    if box:
        arrays |= {name.upper(): array for name, array in policy.bounds._asdict().items()}
    named = "".join(f"{name} = {_array(array)}\n" for name, array in arrays.items())
    pairs = "".join(f"    ({_array(w)}, {_array(b)}),\n" for w, b in policy.layers())
    return f"{start}{act}{ARRAY}{named}LAYERS = [\n{pairs}]\n"


@dataclass(frozen=True)
class Interpreter:
    """A policy that a fresh Python interpreter runs from a file."""

    path: Path
    space: ActionSpace
    """The actions of the policy that the file was made from."""

    def __call__(self, observations: Rows, seed: int | None) -> np.ndarray:
        with tempfile.TemporaryDirectory() as name:
            rows, actions = Path(name) / "rows.npy", Path(name) / "actions.npy"
            np.save(rows, observations)
            self._run(str(rows), str(actions), "" if seed is None else str(seed))
            return _numbers(np.load(actions), self.space)

    def _run(self, *arguments: str) -> None:
        command = [sys.executable, "-I", "-c", CHECK, str(self.path.resolve()), *arguments]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise LobsDICEError(f"the exported file gave no actions within {PATIENCE} s") from error
        if result.returncode:
            reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise LobsDICEError(f"the exported file does not run: {reason}")


def _numbers(actions: np.ndarray, space: ActionSpace) -> np.ndarray:
    """The actions of a file; those with names as numbers."""
    if isinstance(space, Box) or not space.names:
        return actions
    return numbered_texts(actions, space)[0]


def _answer(space: ActionSpace) -> str:
    if isinstance(space, Box):
        return f"an action of {space.size} numbers"
    return f"the name of one of {space.n} actions" if space.names else f"one of {space.n} actions"


def _list(names: tuple[str, ...]) -> str:
    lines = "".join(f"    {name!a},\n" for name in names)
    return f"[\n{lines}]" if names else "[]"


def _array(array: np.ndarray) -> str:
    """An expression that gives the array."""
    text = base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode("ascii")
    lines = "\n".join(textwrap.wrap(text, 96))
    return f'_array({array.shape}, """\n{lines}\n""")'
