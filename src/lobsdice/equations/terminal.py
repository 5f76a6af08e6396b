"""Readings of ends: what may follow a final state; see `tabular.ends` and `training.draws`."""

from typing import Literal, get_args

from lobsdice.errors import LobsDICEError

#: What follows a final state.
Terminal = Literal["keep", "restart", "stay"]


def check_terminal(terminal: str, gamma: float) -> None:
    """Raise an error unless `terminal` is known and exists for this γ."""
    if terminal not in get_args(Terminal):
        raise LobsDICEError(
            f"terminal must be {', '.join(get_args(Terminal))}, but is {terminal!r}"
        )
    if terminal == "stay" and gamma == 1:
        raise LobsDICEError(
            "with gamma = 1, episodes that stay at their ends have all their mass there, and none "
            "on the way; choose restart, or gamma below 1"
        )
