"""What is varied and what is fixed in the random-MDP experiment; light to import."""

from dataclasses import asdict, dataclass
from typing import Any

from lobsdice.errors import LobsDICEError


@dataclass(frozen=True)
class Protocol:
    """Section 5.1 and appendix I.1 of the paper, with the choices that it leaves open."""

    betas: tuple[float, ...] = (0.01, 0.1, 1.0)
    """How stochastic the transitions are: 0 deterministic, 1 four Dirichlet successors."""
    experts: tuple[int, ...] = (10, 100, 1000, 10000)
    """Numbers of expert trajectories, ascending."""
    offlines: tuple[int, ...] = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000)
    """Numbers of trajectories of the uniformly random policy, ascending."""
    alpha: float = 0.1
    """The weight of the regulariser of LobsDICE and DemoDICEfO, as in the paper."""
    small_alpha: float = 0.001
    """The weight of a second LobsDICE, that shows the limit of no regulariser."""
    mix: float = 1e-3
    """The share of the offline distribution that is mixed into the expert's."""
    optimality: float = 0.9
    """Where the expert's value lies between the uniform policy's (0) and the optimal one's (1)."""
    horizon: int = 200
    """Steps of a trajectory; a discounted sum leaves out a share of gamma^horizon."""
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

    @property
    def cells(self) -> tuple[int, int, int]:
        """How many values there are of β, of expert and of offline trajectories."""
        return len(self.betas), len(self.experts), len(self.offlines)

    def describe(self) -> dict[str, Any]:
        """The settings as JSON holds them."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}
