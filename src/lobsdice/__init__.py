"""Offline learning from observation: demonstrations and labelled logs in, a policy out.

Names are imported when they are first used, so that what needs no JAX does not wait for it.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from lobsdice import tabular
    from lobsdice.algorithms import (
        BC,
        BCO,
        OPOLO,
        RCE,
        SMODICE,
        DemoDICE,
        DemoDICEfO,
        IQLearn,
        LobsDICE,
        LobsDICEMu,
    )
    from lobsdice.data.audit import Audit, audit
    from lobsdice.data.episodes import Episodes, concatenate, mixture
    from lobsdice.data.formats import ReadOptions, read, write
    from lobsdice.data.prepare import Data, Observations, Transitions, prepare
    from lobsdice.data.spaces import Box, Discrete
    from lobsdice.environments.evaluate import evaluate
    from lobsdice.environments.tasks.collect import collect
    from lobsdice.environments.tasks.task import Task, load
    from lobsdice.errors import DataWarning, LobsDICEError
    from lobsdice.policies.numpy import export_numpy
    from lobsdice.policies.onnx import export_onnx
    from lobsdice.policies.policy import Policy, load_policy
    from lobsdice.training.engine import Options
    from lobsdice.training.select import Candidate, select
    from lobsdice.training.train import Run, train

_HOMES = {
    "algorithms": (
        "BC",
        "BCO",
        "DemoDICE",
        "DemoDICEfO",
        "IQLearn",
        "LobsDICE",
        "LobsDICEMu",
        "OPOLO",
        "RCE",
        "SMODICE",
    ),
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
    "training.engine": ("Options",),
    "training.select": ("Candidate", "select"),
    "training.train": ("Run", "train"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BC",
    "BCO",
    "OPOLO",
    "RCE",
    "SMODICE",
    "Audit",
    "Box",
    "Candidate",
    "Data",
    "DataWarning",
    "DemoDICE",
    "DemoDICEfO",
    "Discrete",
    "Episodes",
    "IQLearn",
    "LobsDICE",
    "LobsDICEError",
    "LobsDICEMu",
    "Observations",
    "Options",
    "Policy",
    "ReadOptions",
    "Run",
    "Task",
    "Transitions",
    "audit",
    "collect",
    "concatenate",
    "evaluate",
    "export_numpy",
    "export_onnx",
    "load",
    "load_policy",
    "mixture",
    "prepare",
    "read",
    "select",
    "tabular",
    "train",
    "write",
]


def __getattr__(name: str) -> Any:
    if name == "tabular":
        return importlib.import_module("lobsdice.tabular")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'lobsdice' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"lobsdice.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
