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
    from lobsdice.auditing import Audit, audit
    from lobsdice.data import Data, Observations, Transitions, prepare
    from lobsdice.engine import Options
    from lobsdice.episodes import Episodes, concatenate, mixture
    from lobsdice.errors import LobsDICEError
    from lobsdice.evaluation import evaluate
    from lobsdice.export import export_numpy, export_onnx
    from lobsdice.formats import DataWarning, ReadOptions, read, write
    from lobsdice.policy import Policy, load_policy
    from lobsdice.selecting import Candidate, select
    from lobsdice.spaces import Box, Discrete
    from lobsdice.tasks import Task, collect, load
    from lobsdice.training import Run, train

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
    "auditing": ("Audit", "audit"),
    "data": ("Data", "Observations", "Transitions", "prepare"),
    "engine": ("Options",),
    "episodes": ("Episodes", "concatenate", "mixture"),
    "errors": ("LobsDICEError",),
    "evaluation": ("evaluate",),
    "export": ("export_numpy", "export_onnx"),
    "formats": ("DataWarning", "ReadOptions", "read", "write"),
    "policy": ("Policy", "load_policy"),
    "selecting": ("Candidate", "select"),
    "spaces": ("Box", "Discrete"),
    "tasks": ("Task", "collect", "load"),
    "training": ("Run", "train"),
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
