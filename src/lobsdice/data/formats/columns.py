"""Which columns of a table hold what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lobsdice.data.formats.options import IfThere, ReadOptions
from lobsdice.errors import LobsDICEError

#: Where no pattern is given, the first of these that matches a column is used.
EPISODE = ("episode", "episode_id", "episode_index", "trajectory", "trajectory_id")
STEP = ("step", "step_index", "frame_index", "timestep")
OBSERVATIONS = ("obs_*", "obs", "observation", "observations", "observation*", "state_*")
ACTIONS = ("action", "actions", "action_*", "action*")
REWARD = ("reward",)
TERMINATED = ("terminated", "terminal")

#: Columns that describe the actions instead of holding some; their first filled cell counts.
SPACE = ("action_low_*", "action_high_*", "action_count")


@dataclass(frozen=True)
class Layout:
    """A column, or several, for each thing that an episode is made of."""

    episode: str
    step: str | None
    observations: tuple[str, ...]
    actions: tuple[str, ...]
    reward: str | None
    terminated: str | None
    source: str | None
    space: tuple[str, ...]

    @classmethod
    def find(cls, names: Sequence[str], options: ReadOptions) -> "Layout":
        """Go by the options, and by the default names where they say nothing."""
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise LobsDICEError(f"the column '{repeated[0]}' occurs more than once")
        episode = _one(names, options.episode_column, EPISODE)
        if episode is None:
            raise LobsDICEError(
                f"there is no episode column; name it with `episode_column`, one of {_list(names)}"
            )
        space = _match(names, SPACE)
        free = [name for name in names if name not in space]
        observations = _columns(free, options.observation_columns, OBSERVATIONS, "observation")
        if not observations:
            raise LobsDICEError(
                f"no column looks like an observation ({', '.join(OBSERVATIONS)}); name them with "
                f"`observation_columns`, among {_list(names)}"
            )
        actions = _columns(free, options.action_columns, ACTIONS, "action")
        _check_roles(observations, {"action": actions, "episode": (episode,)})
        return cls(
            episode=episode,
            step=_one(names, options.step_column, STEP),
            observations=observations,
            actions=actions,
            reward=_one(names, options.reward_column, REWARD),
            terminated=_one(names, options.terminated_column, TERMINATED),
            source=_one(names, None, ("source",)),
            space=space,
        )

    @property
    def names(self) -> list[str]:
        single = (self.episode, self.step, self.reward, self.terminated, self.source)
        found = [name for name in single if name is not None]
        return list(dict.fromkeys([*found, *self.observations, *self.actions, *self.space]))


def _one(names: Sequence[str], wanted: str | None, known: Sequence[str]) -> str | None:
    if wanted is not None and wanted not in names:
        raise LobsDICEError(f"there is no column '{wanted}', only {_list(names)}")
    return wanted or next((name for name in known if name in names), None)


def _columns(
    names: Sequence[str], wanted: Sequence[str], known: Sequence[str], what: str
) -> tuple[str, ...]:
    if wanted and isinstance(wanted, IfThere) and not _match(names, wanted):
        return ()
    for pattern in wanted:
        if not _match(names, (pattern,)):
            raise LobsDICEError(
                f"the {what} pattern '{pattern}' matches no column, only {_list(names)} are there"
            )
    if wanted:
        found = (numbered(_match(names, (pattern,))) for pattern in wanted)
        return tuple(dict.fromkeys(name for columns in found for name in columns))
    return numbered(next((m for p in known if (m := _match(names, (p,)))), ()))


def _check_roles(observations: Sequence[str], others: Mapping[str, Sequence[str]]) -> None:
    """A policy that sees the action that it is to choose would learn to copy it."""
    for what, columns in others.items():
        if both := next((name for name in observations if name in columns), None):
            raise LobsDICEError(
                f"the column '{both}' is both an observation and the {what}; choose other "
                "`observation_columns`"
            )


def _match(names: Sequence[str], patterns: Sequence[str]) -> tuple[str, ...]:
    return tuple(n for n in names if any(fnmatchcase(n, pattern) for pattern in patterns))


def numbered(names: Sequence[str]) -> tuple[str, ...]:
    """In the order of their numbers where all names end in one, else as in the file."""
    if all(name[-1:].isdecimal() for name in names):
        stems = [name.rstrip("0123456789") for name in names]
        keys = [(stem, int(n[len(stem) :])) for n, stem in zip(names, stems, strict=True)]
        return tuple(name for _, name in sorted(zip(keys, names, strict=True)))
    return tuple(names)


def _list(names: Sequence[str], shown: int = 8) -> str:
    listed = ", ".join(map(str, names[:shown]))
    return f"{listed} and {len(names) - shown} more" if len(names) > shown else listed or "none"
