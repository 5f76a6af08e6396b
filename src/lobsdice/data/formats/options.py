"""Options for reading a file: facts that the file does not state."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lobsdice.data.spaces import ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError


class IfThere(tuple[str, ...]):
    """Patterns of columns that a file may lack."""


class OneIfThere(str):
    """The name of a column that a file may lack."""


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a file; the defaults suit the files that docs/formats.md describes."""

    episode_column: str | None = None
    """CSV and Parquet: the column that tells episodes apart (default: the first of `episode`,
    `episode_id`, `episode_index`, `trajectory` and `trajectory_id` that the file has)."""
    step_column: str | None = None
    """CSV and Parquet: the column of numbers or times that orders the rows of an episode (default:
    `step`, `step_index`, `frame_index` or `timestep`; without one, the order of the file)."""
    observation_columns: tuple[str, ...] = ()
    """CSV and Parquet: the columns of the observations in their order, as names or as patterns with
    the wildcards `*` and `?` (default: `obs_*`, `observation*` or `state_*`)."""
    action_columns: tuple[str, ...] = ()
    """CSV and Parquet: the columns of the actions, as names or patterns (default: `action` or
    `action_*`)."""
    reward_column: str | None = None
    """CSV and Parquet: the column of the rewards (default: `reward`, if the file has it)."""
    terminated_column: str | None = None
    """CSV and Parquet: the column that marks terminations (default: `terminated` or `terminal`)."""
    success_column: str | None = None
    """CSV and Parquet: the column that tells success from failure (default: `success` or
    `is_success`, if the file has it). Used to describe the data, never for learning."""
    time_limit: int | None = None
    """Episodes of this many steps count as truncated, whatever the file says: for files that mark
    the end of an episode at the time limit, too."""
    action_kind: Literal["auto", "continuous", "discrete"] = "auto"
    """Real actions (continuous) or whole numbers (discrete); `auto` takes the type in the file."""
    action_low: tuple[float, ...] = ()
    """The smallest action: one number for all columns, or one for each. Overrides the file."""
    action_high: tuple[float, ...] = ()
    """The largest action: one number for all columns, or one for each. Overrides the file."""
    action_count: int | None = None
    """The number of discrete actions. Overrides the file."""

    def __post_init__(self):
        if bool(self.action_low) != bool(self.action_high):
            raise LobsDICEError("`action_low` and `action_high` must be given together")
        if self.action_low and self.action_count is not None:
            raise LobsDICEError(
                "`action_count` is for discrete actions, `action_low` and `action_high` for "
                "continuous ones; give only one of the two"
            )
        if self.time_limit is not None and self.time_limit < 1:
            raise LobsDICEError(f"`time_limit` is {self.time_limit}; it must be at least 1")

    def unlabelled(self) -> "ReadOptions":
        """The same options for demonstrations, which may lack columns that the logs have.

        These are the actions, and marks of ends and of success.
        """
        ended, success = self.terminated_column, self.success_column
        return replace(
            self,
            action_columns=IfThere(self.action_columns),
            terminated_column=None if ended is None else OneIfThere(ended),
            success_column=None if success is None else OneIfThere(success),
        )

    def action_space(self, size: int) -> ActionSpace | None:
        """The space that the options state for actions of `size` numbers, if they state one."""
        if self.action_count is not None:
            return Discrete(self.action_count)
        if not self.action_low:
            return None
        bounds = (self.action_low, self.action_high)
        return Box.of(*(np.repeat(b, size) if len(b) == 1 else b for b in bounds))


#: The options that `read` uses without others.
DEFAULTS = ReadOptions()
