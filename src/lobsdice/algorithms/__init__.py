"""One algorithm, one file. `ALGORITHMS` has the class of each, by name; see `catalogue.py`."""

import importlib
from typing import TYPE_CHECKING, Any

from lobsdice.algorithms.base import Algorithm
from lobsdice.catalogue import CATALOGUE

if TYPE_CHECKING:
    from lobsdice.algorithms.bc import BC
    from lobsdice.algorithms.bco import BCO
    from lobsdice.algorithms.demodice import DemoDICE
    from lobsdice.algorithms.demodicefo import DemoDICEfO
    from lobsdice.algorithms.iqlearn import IQLearn
    from lobsdice.algorithms.lobsdice import LobsDICE
    from lobsdice.algorithms.lobsdice_mu import LobsDICEMu
    from lobsdice.algorithms.opolo import OPOLO
    from lobsdice.algorithms.rce import RCE
    from lobsdice.algorithms.smodice import SMODICE

ALGORITHMS: dict[str, type[Algorithm]] = {
    name: getattr(importlib.import_module(f"lobsdice.algorithms.{name}"), entry.class_name)
    for name, entry in CATALOGUE.items()
}

__all__ = [
    "ALGORITHMS",
    "BC",
    "BCO",
    "OPOLO",
    "RCE",
    "SMODICE",
    "Algorithm",
    "DemoDICE",
    "DemoDICEfO",
    "IQLearn",
    "LobsDICE",
    "LobsDICEMu",
]


def __getattr__(name: str) -> Any:
    """The classes under their own names."""
    for kind in ALGORITHMS.values():
        if kind.__name__ == name:
            return kind
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
