"""The settings of the random-MDP experiment; light to import."""

from dataclasses import asdict, dataclass
from typing import Any

from lobsdice.errors import LobsDICEError


@dataclass(frozen=True)
class Settings:
    """Section 5.1 and appendix I.1 of the paper, and the choices that it leaves open."""

    betas: tuple[float, ...] = (0.01, 0.1, 1.0)
    """Randomness of the transitions: 0 is deterministic, 1 is Dirichlet over four successors."""
    experts: tuple[int, ...] = (10, 100, 1000, 10000)
    """Numbers of expert trajectories, ascending."""
    offlines: tuple[int, ...] = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000)
    """Numbers of trajectories of the uniformly random policy, ascending."""
    alpha: float = 0.1
    """Weight α of the regulariser of LobsDICE and DemoDICEfO, as in the paper."""
    small_alpha: float = 0.001
    """Weight α of a second LobsDICE, close to the limit without a regulariser."""
    mix: float = 1e-3
    """Share of the offline distribution that is mixed into the expert's."""
    optimality: float = 0.9
    """The expert's value, on a scale from the uniform policy's (0) to the optimal policy's (1)."""
    horizon: int = 200
    """Steps of a trajectory. A discounted sum over it leaves out a share of gamma^horizon."""
    states: int = 20
    """States of an MDP."""
    actions: int = 4
    """Actions of an MDP."""
    gamma: float = 0.95
    """The discount."""

    def __post_init__(self):
        for name in ("betas", "experts", "offlines"):
            values = getattr(self, name)
            if not values or list(values) != sorted(set(values)) or min(values) <= 0:
                raise LobsDICEError(f"{name} must be positive and ascending, but are {values}")
        if max(self.betas) > 1:
            raise LobsDICEError(f"betas must be at most 1, but are {self.betas}")
        if not 0 < self.optimality < 1:
            raise LobsDICEError(f"optimality must lie between 0 and 1, but is {self.optimality}")

    def describe(self) -> dict[str, Any]:
        """The settings as plain data for JSON."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}
