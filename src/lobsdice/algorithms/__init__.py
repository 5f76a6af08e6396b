"""One algorithm, one file. The command line and the contract tests read this table."""

from lobsdice.algorithms.base import Algorithm
from lobsdice.algorithms.bc import BC
from lobsdice.algorithms.lobsdice import LobsDICE
from lobsdice.algorithms.lobsdice_mu import LobsDICEMu

ALGORITHMS: dict[str, type[Algorithm]] = {
    "lobsdice": LobsDICE,
    "lobsdice_mu": LobsDICEMu,
    "bc": BC,
}

__all__ = ["ALGORITHMS", "BC", "Algorithm", "LobsDICE", "LobsDICEMu"]
