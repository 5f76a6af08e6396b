"""The columns of a table that hold each part of an episode."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lobsdice.data import display
from lobsdice.data.formats.metadata import SUCCESS
from lobsdice.data.formats.options import IfThere, OneIfThere, ReadOptions
from lobsdice.data.formats.wildcards import matches
from lobsdice.errors import LobsDICEError, MissingColumnError

#: Without an option, the first of these patterns that matches a column is used.
EPISODE = ("episode", "episode_id", "episode_index", "trajectory", "trajectory_id")
STEP = ("step", "step_index", "frame_index", "timestep")
OBSERVATIONS = ("obs_*", "obs", "observation", "observations", "observation*", "state_*")
ACTIONS = ("action", "actions", "action_*", "action*")
REWARD = ("reward",)
TERMINATED = ("terminated", "terminal")

#: Words in the names of columns that often mark ends. They are never read without an option,
#: because `done` is often set where only the recording stopped, and `success` not at failures.
MAY_END = {
    *("done", "dones", "terminal", "terminals", "terminated", "termination", "terminations"),
    *("finished", "ended", "success", "succeeded", "failed", "failure", "crashed", "collision"),
    *("reached", "docked", "grasped", "completed", "last"),
    *("status", "outcome", "event", "result", "alarm", "trip", "tripped"),
}

#: Columns of the action space, not of actions. Only their first filled cell counts.
SPACE = ("action_low_*", "action_high_*", "action_count", "action_names_*")


#: Stands for the column of episodes in a table that is one episode.
ONE = ""

#: The most names in an error, and the most characters of each.
MOST, LONGEST = 20, 60


@dataclass(frozen=True)
class Layout:
    """The names of the columns for each part of an episode."""

    episode: str
    step: str | None
    observations: tuple[str, ...]
    actions: tuple[str, ...]
    reward: str | None
    terminated: str | None
    success: str | None
    source: str | None
    space: tuple[str, ...]
    unread: tuple[str, ...]
    """Columns that may mark terminations, if none was read as such."""

    @classmethod
    def find(cls, names: Sequence[str], options: ReadOptions) -> "Layout":
        """The columns that the options name, else those with the default names."""
        if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
            raise LobsDICEError(f"there is more than one column '{listed(repeated[:1])}'")
        episode = _episode(names, options)
        space = _match(names, SPACE)
        taken = set(space)
        free = [name for name in names if name not in taken]
        observations = _columns(free, options.observation_columns, OBSERVATIONS, "observation")
        if not observations:
            raise LobsDICEError(
                f"no column is named like an observation ({', '.join(OBSERVATIONS)}); choose some "
                f"with `observation_columns`: {listed(names)}"
            )
        actions = _columns(free, options.action_columns, ACTIONS, "action")
        _check_roles(observations, {"action": actions, "episode": (episode,)})
        terminated = _one(names, options.terminated_column, TERMINATED)
        success = _one(names, options.success_column, SUCCESS)
        _check_words("terminated", terminated, options.terminated_values)
        _check_words("success", success, options.success_values)
        set_apart = [name for name in names if name not in (*observations, *actions)]
        return cls(
            episode=episode,
            step=_one(names, options.step_column, STEP),
            observations=observations,
            actions=actions,
            reward=_one(names, options.reward_column, REWARD),
            terminated=terminated,
            success=success,
            source=_one(names, None, ("source",)),
            space=space,
            unread=() if terminated else tuple(filter(_may_end, set_apart)),
        )

    @property
    def names(self) -> list[str]:
        """All columns that are used, each once."""
        single = (self.episode, self.step, self.reward, self.terminated, self.success, self.source)
        found = [name for name in single if name]
        return list(dict.fromkeys([*found, *self.observations, *self.actions, *self.space]))


def _may_end(name: str) -> bool:
    """True if a word of the name often marks ends, as in `is_terminal` or `goalReached`."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    return any(word.lower() in MAY_END for word in words)


def _episode(names: Sequence[str], options: ReadOptions) -> str:
    if found := _one(names, options.episode_column, EPISODE):
        return found
    if options.one_episode:
        return ONE
    which = (
        _there_are(names)
        if len(names) == 1
        else f"choose one with `episode_column`: {listed(names)}"
    )
    raise LobsDICEError(
        f"no column tells the episodes apart; {which}; or set `one_episode` if the file is one "
        "episode"
    )


def _one(names: Sequence[str], wanted: str | None, known: Sequence[str]) -> str | None:
    if isinstance(wanted, OneIfThere) and wanted not in names:
        wanted = None
    if wanted is not None and wanted not in names:
        raise MissingColumnError(f"there is no column '{wanted}'; {_there_are(names)}")
    return wanted or next((name for name in known if name in names), None)


def _check_words(what: str, column: str | None, words: Sequence[str]) -> None:
    """Raise an error if words are named, but not the column that holds them."""
    if words and column is None and not isinstance(words, IfThere):
        raise LobsDICEError(
            f"`{what}_values` names {listed([repr(word) for word in words])}, but no column that "
            f"holds such words; name it as `{what}_column`"
        )


def _there_are(names: Sequence[str]) -> str:
    if len(names) == 1:
        return (
            f"there is only the column {names[0]!r}; if another sign than a comma separates "
            "columns, state it as `separator`"
        )
    return f"the columns are {listed(names)}"


def _columns(
    names: Sequence[str], wanted: Sequence[str], known: Sequence[str], what: str
) -> tuple[str, ...]:
    if wanted and isinstance(wanted, IfThere) and not _match(names, wanted):
        return ()
    for pattern in wanted:
        if not _match(names, (pattern,)):
            raise MissingColumnError(
                f"the {what} pattern '{pattern}' matches no column; the columns are {listed(names)}"
            )
    if wanted:
        found = (numbered(_match(names, (pattern,))) for pattern in wanted)
        return tuple(dict.fromkeys(name for columns in found for name in columns))
    return numbered(next((m for p in known if (m := _match(names, (p,)))), ()))


def choose(
    names: Sequence[str], patterns: Sequence[str], what: str, *, strict: bool = True
) -> tuple[str, ...]:
    """The names that match patterns, in the order of the patterns; each must match, if strict."""
    if not strict:
        return _match(names, patterns)
    return _columns(names, patterns, (), what)


def _check_roles(observations: Sequence[str], others: Mapping[str, Sequence[str]]) -> None:
    """Raise an error if an observation has another role too: a policy would copy its action."""
    for what, columns in others.items():
        taken = set(columns)
        if both := next((name for name in observations if name in taken), None):
            raise LobsDICEError(
                f"column '{both}' is both an observation and the {what}; choose other "
                "`observation_columns`"
            )


def _match(names: Sequence[str], patterns: Sequence[str]) -> tuple[str, ...]:
    return tuple(n for n in names if any(matches(n, pattern) for pattern in patterns))


def numbered(names: Sequence[str]) -> tuple[str, ...]:
    """The names in the order of the numbers at their ends, if all have one; else as they are."""
    if all(name[-1:].isdecimal() for name in names):
        stems = [name.rstrip("0123456789") for name in names]
        keys = [(stem, int(n[len(stem) :])) for n, stem in zip(names, stems, strict=True)]
        return tuple(name for _, name in sorted(zip(keys, names, strict=True)))
    return tuple(names)


def listed(names: Sequence[str], *, none: str = "none") -> str:
    """The first names, shortened, and the number of the others; for errors about columns."""
    return display.listed(names, MOST, longest=LONGEST, none=none)
