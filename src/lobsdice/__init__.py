"""Offline learning from observation: demonstrations and logs with actions in, a policy out.

Names are imported when they are first used, so that commands without JAX start fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from lobsdice import tabular as tabular
    from lobsdice.algorithms import *  # noqa: F403 # pyright: ignore[reportWildcardImportFromLibrary]
    from lobsdice.data.audit import Audit as Audit, audit as audit
    from lobsdice.data.episodes import (
        Episodes as Episodes,
        concatenate as concatenate,
        mixture as mixture,
    )
    from lobsdice.data.formats import ReadOptions as ReadOptions, read as read, write as write
    from lobsdice.data.prepare import (
        Data as Data,
        Observations as Observations,
        Transitions as Transitions,
        prepare as prepare,
    )
    from lobsdice.data.spaces import Box as Box, Discrete as Discrete
    from lobsdice.environments.evaluate import evaluate as evaluate
    from lobsdice.environments.tasks.collect import collect as collect
    from lobsdice.environments.tasks.task import Task as Task, load as load
    from lobsdice.errors import DataWarning as DataWarning, LobsDICEError as LobsDICEError
    from lobsdice.policies.numpy import export_numpy as export_numpy
    from lobsdice.policies.onnx import export_onnx as export_onnx
    from lobsdice.policies.policy import Policy as Policy, load_policy as load_policy
    from lobsdice.training.callbacks import (
        EarlyStopping as EarlyStopping,
        Moment as Moment,
        StopTraining as StopTraining,
    )
    from lobsdice.training.engine import Options as Options
    from lobsdice.training.fit import fit as fit
    from lobsdice.training.loggers import TensorBoard as TensorBoard, WandB as WandB
    from lobsdice.training.select import Candidate as Candidate, select as select
    from lobsdice.training.train import Run as Run, train as train

_HOMES = {
    "data.audit": ("Audit", "audit"),
    "data.episodes": ("Episodes", "concatenate", "mixture"),
    "data.formats": ("ReadOptions", "read", "write"),
    "data.prepare": ("Data", "Observations", "Transitions", "prepare"),
    "data.spaces": ("Box", "Discrete"),
    "environments.evaluate": ("evaluate",),
    "environments.tasks.collect": ("collect",),
    "environments.tasks.task": ("Task", "load"),
    "errors": ("DataWarning", "LobsDICEError"),
    "policies.numpy": ("export_numpy",),
    "policies.onnx": ("export_onnx",),
    "policies.policy": ("Policy", "load_policy"),
    "training.callbacks": ("EarlyStopping", "Moment", "StopTraining"),
    "training.engine": ("Options",),
    "training.fit": ("fit",),
    "training.loggers": ("TensorBoard", "WandB"),
    "training.select": ("Candidate", "select"),
    "training.train": ("Run", "train"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted([*_HOME_OF, *_algorithms(), "tabular"])
    if name == "tabular":
        return importlib.import_module("lobsdice.tabular")
    if name in _HOME_OF:
        value = getattr(importlib.import_module(f"lobsdice.{_HOME_OF[name]}"), name)
    elif name[0].isupper() and name in (found := _algorithms()):
        value = found[name]
    else:
        raise AttributeError(f"module 'lobsdice' has no attribute {name!r}")
    globals()[name] = value
    return value


def _algorithms() -> dict[str, Any]:
    """The registered algorithms by the names of their classes."""
    found = importlib.import_module("lobsdice.algorithms").ALGORITHMS
    return {kind.__name__: kind for kind in found.values()}


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), "__version__"]
