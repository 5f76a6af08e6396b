"""Options for reading a file: facts that the file does not state."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, Literal

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
    """The columns of the observations in their order, as names or as patterns with the wildcards
    `*` and `?` (default: `obs_*`, `observation*` or `state_*`). For robot data: the features or
    keys of the observations (default: LeRobot's `observation.state` and
    `observation.environment_state`; robomimic's poses of gripper and objects; all numbers of
    RLDS)."""
    action_columns: tuple[str, ...] = ()
    """CSV and Parquet: the columns of the actions, as names or patterns (default: `action` or
    `action_*`)."""
    reward_column: str | None = None
    """CSV and Parquet: the column of the rewards (default: `reward`, if the file has it)."""
    terminated_column: str | None = None
    """CSV and Parquet: the column that marks terminations (default: `terminated` or `terminal`)."""
    terminated_values: tuple[str, ...] = ()
    """CSV and Parquet: the cells of that column that mark a termination, such as `DONE` and
    `ALARM`, if it holds words (default: 1 and true)."""
    last_row_is_final: bool = False
    """CSV and Parquet: the last row of an episode holds its final state, even if it has an action.
    That action is not used, and a mark of termination in the row counts."""
    success_column: str | None = None
    """CSV and Parquet: the column that tells success from failure (default: `success` or
    `is_success`, if the file has it). Used to describe the data, never for learning."""
    success_values: tuple[str, ...] = ()
    """CSV and Parquet: the cells of that column that mean success, such as `DONE`, if it holds
    words (default: 1 and true). All others mean failure; empty cells tell nothing."""
    max_gap: float | None = None
    """CSV and Parquet: split an episode where more than this passes from one row to the next, in
    units of the step column (seconds for times). The part after a gap is an episode of its own."""
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
    scale: tuple[str, ...] = ()
    """Factors for columns of observations or actions, such as `x_mm=0.001` for metres. A name may
    be a pattern. Bounds of actions are in the new units."""
    one_episode: bool = False
    """A table without a column of episodes is one episode. The files of a folder always may be."""
    subset: str | None = None
    """robomimic: the mask of the demonstrations to read, such as `train`. RLDS: the split."""
    separator: str | None = None
    """CSV: the sign between columns, or `tab` (default: a comma; a semicolon or a tab if the header
    has no comma)."""
    decimal: str | None = None
    """CSV: the sign before decimals (default: a point; a comma if semicolons separate columns and
    numbers have commas)."""
    comment: str | None = None
    """CSV: lines that begin with this sign are left out."""
    header: bool = True
    """CSV: the first line names the columns. Otherwise they are named 0, 1, 2 and so on."""

    def __post_init__(self):
        for name in (
            "observation_columns",
            "action_columns",
            "terminated_values",
            "success_values",
        ):
            # Of a text, each letter would be a pattern.
            if isinstance(pattern := getattr(self, name), str):
                object.__setattr__(self, name, (pattern,))
        if bool(self.action_low) != bool(self.action_high):
            raise LobsDICEError("`action_low` and `action_high` must be given together")
        if self.action_low and self.action_count is not None:
            raise LobsDICEError(
                "`action_count` is for discrete actions, `action_low` and `action_high` for "
                "continuous ones; give only one of the two"
            )
        if self.max_gap is not None and not self.max_gap > 0:
            raise LobsDICEError(f"`max_gap` is {self.max_gap:g}; it must be more than 0")
        if self.time_limit is not None and self.time_limit < 1:
            raise LobsDICEError(f"`time_limit` is {self.time_limit}; it must be at least 1")
        for name in ("separator", "decimal", "comment"):
            sign = getattr(self, name)
            if sign is not None and sign != "tab" and (len(sign) != 1 or not sign.isascii()):
                raise LobsDICEError(f"`{name}` is {sign!r}; it must be one sign")
        _ = self.factors

    @property
    def factors(self) -> list[tuple[str, float]]:
        """The names or patterns of columns in `scale`, and their factors."""
        found = []
        for entry in self.scale:
            name, _, text = entry.rpartition("=")
            try:
                factor = float(text)
            except ValueError:
                factor = 0.0
            if not name or not np.isfinite(factor) or factor == 0:
                raise LobsDICEError(
                    f"`scale` has {entry!r}; write the name of a column, '=' and a factor"
                )
            found.append((name, factor))
        return found

    def unlabelled(self) -> "ReadOptions":
        """The same options for demonstrations, which may lack columns that the logs have.

        These are the actions, rewards, marks of ends and of success, and names of episodes, which a
        folder of files does not need.
        """
        single = ("episode_column", "reward_column", "terminated_column", "success_column")
        named = {name: found for name in single if (found := getattr(self, name)) is not None}
        return replace(
            self,
            action_columns=IfThere(self.action_columns),
            terminated_values=IfThere(self.terminated_values),
            success_values=IfThere(self.success_values),
            scale=IfThere(self.scale),
            **{name: OneIfThere(found) for name, found in named.items()},
        )

    def action_space(self, size: int) -> ActionSpace | None:
        """The space that the options state for actions of `size` numbers, if they state one."""
        if self.action_count is not None:
            return Discrete(self.action_count)
        if not self.action_low:
            return None
        bounds = (self.action_low, self.action_high)
        low, high = (np.repeat(b, size) if len(b) == 1 else b for b in bounds)
        return Box.of(low, high)


#: Other names of options, which users of some formats expect.
ALIASES = {"observation_keys": "observation_columns", "mask": "subset", "split": "subset"}


def read_options(options: ReadOptions, keywords: Mapping[str, Any]) -> ReadOptions:
    """The options, with the values of keywords; lists and single texts stand for tuples."""
    if not isinstance(options, ReadOptions):
        raise LobsDICEError(
            f"the options of `read` are ReadOptions or keywords, not {type(options).__name__}"
        )
    known = {f.name: f.default for f in fields(ReadOptions)}
    given = {ALIASES.get(name, name): value for name, value in keywords.items()}
    if unknown := next((name for name in given if name not in known), None):
        close = get_close_matches(unknown, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known)}"
        raise LobsDICEError(f"`read` has no option {unknown!r}; {hint}")
    tuples = {n: _tuple(n, x) if known[n] == () else x for n, x in given.items()}
    return replace(options, **tuples)


def _tuple(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, Mapping):
        return tuple(f"{column}={factor!r}" for column, factor in value.items())
    values = (value,) if isinstance(value, str) else np.ravel(value).tolist()
    if name not in ("action_low", "action_high"):
        return tuple(map(str, values))  # columns without names are called by numbers
    return tuple(float(x) if isinstance(x, int) else x for x in values)


#: The options that `read` uses without others.
DEFAULTS = ReadOptions()
