"""Training data, built once from episodes and never changed.

Two choices are options, because the paper and the authors' code disagree or are silent on them.

`initial` chooses the states that stand for the initial distribution p0:
    first       the first state of each offline episode (default; as in the authors' code)
    all         every offline state but the final ones (as in appendix I.2 of the paper)

`terminal` chooses the next state of the last transition of an episode that terminated:
    keep        the true final state (default)
    absorbing   an absorbing state, marked by an extra feature, that leads to itself
                (discriminator-actor-critic, Kostrikov et al. 2019)
    restart     the first state of the next episode (as in the authors' code)
    drop        none: these transitions are left out
Truncated episodes always keep their true final state.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float, Float32, Int, Int64

from lobsdice.data.episodes import Episodes, check_states
from lobsdice.data.normaliser import SCALE_OFFSET, Normaliser, fit_normaliser, scale_remarks
from lobsdice.data.repeats import shared_rows
from lobsdice.data.spaces import ActionSpace, Box
from lobsdice.errors import DataWarning, LobsDICEError

Initial = Literal["first", "all"]
Terminal = Literal["keep", "absorbing", "restart", "drop"]

States = Float32[np.ndarray, "n state"]
InnerActions = Float32[np.ndarray, "n action"] | Int64[np.ndarray, " n"]


class Observations(NamedTuple):
    """State pairs (s, s'): all that is known of an expert.

    The arrays are NumPy's in a dataset and JAX's in a batch.
    """

    s: Float[Any, "n state"]
    s_next: Float[Any, "n state"]


class Transitions(NamedTuple):
    """Transitions (s, a, s'); real actions are scaled to [-1, 1]."""

    s: Float[Any, "n state"]
    a: Float[Any, "n action"] | Int[Any, " n"]
    s_next: Float[Any, "n state"]


@dataclass(frozen=True, eq=False)
class Data:
    """The data that training sees; states are normalised."""

    init: Float32[np.ndarray, "n0 state"]
    expert: Observations
    offline: Transitions
    normaliser: Normaliser
    action_space: ActionSpace
    source: Int64[np.ndarray, " n"]
    """The place in `source_names` of each offline transition's source; for measures only."""
    source_names: tuple[str, ...]
    labelled: Transitions | None = None
    """Demonstrations with actions, for the algorithms that need some."""
    episode: Int64[np.ndarray, " n"] | None = None
    """The number of each offline transition's episode, if it is known; for measures only."""

    @property
    def state_size(self) -> int:
        """The number of features of a normalised state."""
        return self.init.shape[1]


def prepare(
    expert: Episodes,
    offline: Episodes,
    *,
    initial: Initial | str = "first",
    terminal: Terminal | str = "keep",
    every: int = 1,
    allow_leak: bool = False,
    labelled: Episodes | None = None,
) -> Data:
    """The training data from demonstrations (their actions are ignored) and offline data.

    With `every` = n, only every n-th transition of the demonstrations is kept. `labelled` are
    demonstrations with actions, which only the algorithms that need some will see.

    If expert pairs (s, s') occur in the offline data, the data leaks the expert's actions. That is
    an error unless `allow_leak` is true. In small discrete worlds such pairs occur by chance.
    """
    _check_options(expert, offline, initial, every)
    if not allow_leak:
        _refuse_leak(observations(expert, every=every), observations(offline))
    normaliser = fit_normaliser(offline, indicator=terminal == "absorbing")
    for remark in scale_remarks(offline, normaliser.scale - np.float32(SCALE_OFFSET)):
        warnings.warn(f"the offline data: {remark}", DataWarning, stacklevel=2)
    steps = _steps(offline, terminal)
    table = _state_table(offline, normaliser)
    if labelled is not None:
        _check_labelled(labelled, offline)
    return Data(
        init=table[offline.starts if initial == "first" else offline.step_rows],
        expert=observations(expert, terminal=terminal, every=every, normaliser=normaliser),
        offline=Transitions(table[steps.row], _actions(offline, steps), table[steps.next_row]),
        normaliser=normaliser,
        action_space=_space(offline),
        source=_sources(offline)[steps.episode],
        source_names=offline.source_names or ("offline",),
        labelled=None
        if labelled is None
        else transitions(labelled, terminal=terminal, every=every, normaliser=normaliser),
        episode=steps.episode,
    )


def observations(
    episodes: Episodes,
    *,
    terminal: Terminal | str = "keep",
    every: int = 1,
    normaliser: Normaliser | None = None,
) -> Observations:
    """The state pairs (s, s') of some episodes."""
    steps = _steps(episodes, terminal, every)
    table = _state_table(episodes, normaliser or _identity(episodes, terminal))
    return Observations(table[steps.row], table[steps.next_row])


def transitions(
    episodes: Episodes,
    *,
    terminal: Terminal | str = "keep",
    every: int = 1,
    normaliser: Normaliser | None = None,
) -> Transitions:
    """The transitions (s, a, s') of some episodes with actions."""
    steps = _steps(episodes, terminal, every)
    table = _state_table(episodes, normaliser or _identity(episodes, terminal))
    return Transitions(table[steps.row], _actions(episodes, steps), table[steps.next_row])


def count_leaked(expert: Observations, offline: Observations | Transitions) -> int:
    """The number of expert pairs (s, s') that also occur in the offline data, to the last bit."""
    ours, theirs = (np.concatenate([x.s, x.s_next], axis=1) for x in (expert, offline))
    return int(shared_rows(ours, theirs).sum())


class _Steps(NamedTuple):
    """Steps between rows of a table of states. Its last row may be the absorbing state."""

    action_row: Int64[np.ndarray, " n"]
    """-1 for the steps from the absorbing state to itself, which have no action."""
    episode: Int64[np.ndarray, " n"]
    row: Int64[np.ndarray, " n"]
    next_row: Int64[np.ndarray, " n"]


def _steps(episodes: Episodes, terminal: Terminal | str, every: int = 1) -> _Steps:
    if terminal not in _TERMINAL:
        raise LobsDICEError(f"`terminal` is {terminal!r}; it must be one of {_list(Terminal)}")
    step, episode, row = np.arange(episodes.steps), episodes.step_episodes, episodes.step_rows
    kept = episodes.step_numbers % every == 0
    steps = _where(_Steps(step, episode, row, row + 1), kept)
    ended = episodes.terminated[steps.episode] & (steps.next_row == episodes.ends[steps.episode])
    steps = _TERMINAL[terminal](episodes, steps, ended)
    if not len(steps.row):
        raise LobsDICEError("no transitions are left: every episode terminated after one step")
    return steps


def _restart(episodes: Episodes, steps: _Steps, ended: np.ndarray) -> _Steps:
    next_start = np.roll(episodes.starts, -1)[steps.episode]
    return steps._replace(next_row=np.where(ended, next_start, steps.next_row))


def _absorb(episodes: Episodes, steps: _Steps, ended: np.ndarray) -> _Steps:
    """Let each terminated episode enter the absorbing state and take one step from it to itself."""
    absorbing = len(episodes.observations)
    steps = steps._replace(next_row=np.where(ended, absorbing, steps.next_row))
    who = steps.episode[ended]
    there = np.full(len(who), absorbing)
    loops = _Steps(np.full(len(who), -1), who, there, there)
    return _Steps(*map(np.concatenate, zip(steps, loops, strict=True)))


_TERMINAL = {
    "keep": lambda episodes, steps, ended: steps,
    "absorbing": _absorb,
    "restart": _restart,
    "drop": lambda episodes, steps, ended: _where(steps, ~ended),
}


def _where(steps: _Steps, mask: np.ndarray) -> _Steps:
    return _Steps(*(field[mask] for field in steps))


def _state_table(episodes: Episodes, normaliser: Normaliser) -> States:
    """The normalised observations, and as a last row the absorbing state if there is one."""
    table = normaliser(episodes.observations)
    if not normaliser.indicator:
        return table
    absorbing = np.zeros((1, table.shape[1]), np.float32)
    absorbing[0, -1] = 1
    return np.concatenate([table, absorbing])


def _identity(episodes: Episodes, terminal: Terminal | str) -> Normaliser:
    width = episodes.state_size
    return Normaliser(
        np.zeros(width, np.float32), np.ones(width, np.float32), terminal == "absorbing"
    )


def _actions(episodes: Episodes, steps: _Steps) -> InnerActions:
    space = _space(episodes)
    actions = episodes.actions
    assert actions is not None
    if isinstance(space, Box):
        actions = space.encode(actions)
    chosen = actions[steps.action_row]
    chosen[steps.action_row < 0] = 0
    return chosen


def _space(episodes: Episodes) -> ActionSpace:
    if episodes.action_space is None:
        raise LobsDICEError("the offline data has no actions; only demonstrations may lack them")
    return episodes.action_space


def _sources(episodes: Episodes) -> Int64[np.ndarray, " episodes"]:
    return np.zeros(len(episodes), np.int64) if episodes.source is None else episodes.source


def _list(choices: Any) -> str:
    return ", ".join(map(repr, get_args(choices)))


def _check_options(expert: Episodes, offline: Episodes, initial: Initial | str, every: int) -> None:
    _space(offline)
    check_states("the expert data", expert, "the offline data", offline)
    if initial not in get_args(Initial):
        raise LobsDICEError(f"`initial` is {initial!r}; it must be one of {_list(Initial)}")
    if every < 1:
        raise LobsDICEError(
            f"cannot keep every {every}-th transition of the demonstrations; n must be at least 1"
        )


def _check_labelled(labelled: Episodes, offline: Episodes) -> None:
    check_states("the labelled data", labelled, "the offline data", offline)
    if labelled.action_space is None:
        raise LobsDICEError("the labelled demonstrations have no actions")
    if labelled.action_space != offline.action_space:
        raise LobsDICEError(
            f"the labelled demonstrations have the action space {labelled.action_space}, "
            f"but the offline data has {offline.action_space}"
        )


def _refuse_leak(expert: Observations, offline: Observations) -> None:
    if leaked := count_leaked(expert, offline):
        raise LobsDICEError(
            f"{leaked} of the {len(expert.s)} expert pairs (s, s') occur in the offline data, "
            "which leaks the expert's actions; remove those episodes, or set `allow_leak` if the "
            "leak is meant"
        )
