"""What a user can say about a file that the file does not say itself."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lobsdice.data.spaces import ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError


class IfThere(tuple[str, ...]):
    """Patterns of columns of which a file may have none."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file; the defaults suit files that follow docs/formats.md."""

    episode_column: str | None = None
    """CSV and Parquet: the column that tells episodes apart (default: the first of `episode`,
    `episode_id`, `episode_index`, `trajectory` and `trajectory_id` that is there)."""
    step_column: str | None = None
    """CSV and Parquet: the column that orders the rows of an episode, by numbers or times (default:
    `step`, `step_index`, `frame_index` or `timestep`; without one, the order of the file)."""
    observation_columns: tuple[str, ...] = ()
    """CSV and Parquet: patterns (`*` and `?` are wildcards) of the columns of the observations, in
    their order (default: `obs_*`, `observation*` or `state_*`)."""
    action_columns: tuple[str, ...] = ()
    """CSV and Parquet: patterns of the columns of the actions (default: `action` or `action_*`)."""
    reward_column: str | None = None
    """CSV and Parquet: the column of the rewards (default: `reward`, where it is there)."""
    terminated_column: str | None = None
    """CSV and Parquet: the column that marks termination (default: `terminated` or `terminal`)."""
    action_kind: Literal["auto", "continuous", "discrete"] = "auto"
    """Whether actions are real or whole numbers; `auto` goes by the type they are stored in."""
    action_low: tuple[float, ...] = ()
    """The smallest action: one number for all columns, or one for each. Overrides the file's."""
    action_high: tuple[float, ...] = ()
    """The largest action: one number for all columns, or one for each. Overrides the file's."""
    action_count: int | None = None
    """How many discrete actions there are. Overrides the file's."""

    def __post_init__(self):
        if bool(self.action_low) != bool(self.action_high):
            raise LobsDICEError("`action_low` and `action_high` come together or not at all")
        if self.action_low and self.action_count is not None:
            raise LobsDICEError("actions have bounds or a count, not both")

    def unlabelled(self) -> "ReadOptions":
        """The same for a file that may lack the columns that are named for actions."""
        return replace(self, action_columns=IfThere(self.action_columns))

    def action_space(self, size: int) -> ActionSpace | None:
        """The space that the user states for actions of `size` numbers, if any."""
        if self.action_count is not None:
            return Discrete(self.action_count)
        if not self.action_low:
            return None
        bounds = (self.action_low, self.action_high)
        return Box.of(*(np.repeat(b, size) if len(b) == 1 else b for b in bounds))


#: What `read` goes by unless told otherwise.
DEFAULTS = ReadOptions()
