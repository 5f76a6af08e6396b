"""What an offline learner from observation may see: built once from episodes, never mutated.

Two choices that the paper and its code leave open, or disagree on, are named options here.

`initial`, the states that stand for p0:
    first       the first state of each offline episode (default; as in the authors' release)
    all         every state that the offline data leaves (the paper's appendix on MuJoCo)

`terminal`, what follows the last action of an episode that the environment ended:
    keep        the true final state (default)
    absorbing   an absorbing state that loops on itself, told apart by an extra indicator feature
                (discriminator-actor-critic, Kostrikov et al. 2019)
    restart     the first state of the next episode (as in the authors' release)
    drop        nothing: these transitions are left out
Truncated episodes always keep their true final state, whatever the option.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float, Float32, Int, Int64

from lobsdice.data.episodes import Episodes, check_states
from lobsdice.data.repeats import shared_rows
from lobsdice.data.spaces import ActionSpace, Box
from lobsdice.errors import DataWarning, LobsDICEError

Initial = Literal["first", "all"]
Terminal = Literal["keep", "absorbing", "restart", "drop"]

#: Added to each standard deviation, so that a constant feature is not divided by zero.
SCALE_OFFSET = 1e-3

#: How much of a standard deviation may lie between a feature's value and the next float32.
RESOLUTION = 1e-4

States = Float32[np.ndarray, "n state"]
InnerActions = Float32[np.ndarray, "n action"] | Int64[np.ndarray, " n"]


class Observations(NamedTuple):
    """Pairs of a state and the next one: all that is known of an expert.

    The arrays are NumPy's in a data set, and JAX's in a batch.
    """

    s: Float[Any, "n state"]
    s_next: Float[Any, "n state"]


class Transitions(NamedTuple):
    """A state, the action taken there (reals scaled to [-1, 1]) and the next state."""

    s: Float[Any, "n state"]
    a: Float[Any, "n action"] | Int[Any, " n"]
    s_next: Float[Any, "n state"]


class Normaliser(NamedTuple):
    """From observations in the user's units to the states that networks see."""

    mean: Float32[np.ndarray, " width"]
    scale: Float32[np.ndarray, " width"]
    indicator: bool = False
    """Whether states end in a feature that is 1 for the absorbing state and 0 for all others."""
    names: tuple[str, ...] = ()
    """What the numbers of an observation are called, where that is known."""

    def __call__(self, observations: Float[np.ndarray, "*n width"]) -> Float32[np.ndarray, "*n _"]:
        states = ((observations - self.mean) / self.scale).astype(np.float32, copy=False)
        if self.indicator:
            states = np.concatenate([states, np.zeros_like(states[..., :1])], axis=-1)
        return states


@dataclass(frozen=True, eq=False)
class Data:
    """Everything that training sees; states are normalised."""

    init: Float32[np.ndarray, "n0 state"]
    expert: Observations
    offline: Transitions
    normaliser: Normaliser
    action_space: ActionSpace
    source: Int64[np.ndarray, " n"]
    """Which of `source_names` each offline transition comes from; for diagnosis only."""
    source_names: tuple[str, ...]
    labelled: Transitions | None = None
    """Demonstrations whose actions are known, for the algorithms that ask for them."""
    episode: Int64[np.ndarray, " n"] | None = None
    """Which offline episode each offline transition is of, where known; for diagnosis only."""

    @property
    def state_size(self) -> int:
        """How many numbers a network sees of a state."""
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
    """Data for a learner, from demonstrations (their actions are ignored) and labelled recordings.

    `every` keeps each `every`-th transition of a demonstration. `labelled` are demonstrations whose
    actions may be used, for the algorithms that need some; the others never see them. If
    demonstrated pairs (s, s') occur in the labelled recordings, learning would be handed the
    demonstrator's actions, so that is refused unless `allow_leak` says that it is meant (as for
    small discrete state spaces).
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
    """The (s, s') of any episodes: the state-only view."""
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
    """The (s, a, s') of labelled episodes."""
    steps = _steps(episodes, terminal, every)
    table = _state_table(episodes, normaliser or _identity(episodes, terminal))
    return Transitions(table[steps.row], _actions(episodes, steps), table[steps.next_row])


def fit_normaliser(offline: Episodes, *, indicator: bool = False) -> Normaliser:
    """Mean, and standard deviation + 1e-3, of the states that the offline data leaves."""
    states = offline.observations[offline.step_rows]
    mean = states.mean(axis=0, dtype=np.float64)
    deviation = states.std(axis=0, dtype=np.float64, mean=mean[None])
    scale = deviation + SCALE_OFFSET
    moments = (mean.astype(np.float32), scale.astype(np.float32))
    return Normaliser(*moments, indicator, offline.observation_names)


def scale_remarks(episodes: Episodes, deviation: Float[np.ndarray, " width"]) -> list[str]:
    """A sentence for each feature of which a learner sees little because of its units."""
    names = episodes.observation_names or range(episodes.state_size)
    low, high = episodes.observation_range
    tiny = (deviation > 0) & (deviation < SCALE_OFFSET)
    size = np.maximum(np.abs(low), np.abs(high))
    coarse = (deviation >= SCALE_OFFSET) & (np.spacing(size) > RESOLUTION * deviation)
    return [
        *(
            f"feature {names[i]} varies by {deviation[i]:.2g} only, which normalisation takes for "
            "nearly constant; use larger units"
            for i in np.flatnonzero(tiny)
        ),
        *(
            f"feature {names[i]} varies by {deviation[i]:.2g} only near {size[i]:.2g}, where "
            f"float32 has steps of {np.spacing(size[i]):.2g}; subtract a constant from it"
            for i in np.flatnonzero(coarse)
        ),
    ]


def count_leaked(expert: Observations, offline: Observations | Transitions) -> int:
    """The number of expert pairs (s, s') that are, to the last bit, also offline pairs."""
    ours, theirs = (np.concatenate([x.s, x.s_next], axis=1) for x in (expert, offline))
    return int(shared_rows(ours, theirs).sum())


class _Steps(NamedTuple):
    """Steps as rows of a state table, whose last row is the absorbing state if there is one."""

    action_row: Int64[np.ndarray, " n"]
    """-1 for the absorbing state's loop, which has no action."""
    episode: Int64[np.ndarray, " n"]
    row: Int64[np.ndarray, " n"]
    next_row: Int64[np.ndarray, " n"]


def _steps(episodes: Episodes, terminal: Terminal | str, every: int = 1) -> _Steps:
    if terminal not in _TERMINAL:
        raise LobsDICEError(f"terminal is {terminal!r}, not one of {get_args(Terminal)}")
    step, episode, row = np.arange(episodes.steps), episodes.step_episodes, episodes.step_rows
    kept = episodes.step_numbers % every == 0
    steps = _where(_Steps(step, episode, row, row + 1), kept)
    ended = episodes.terminated[steps.episode] & (steps.next_row == episodes.ends[steps.episode])
    steps = _TERMINAL[terminal](episodes, steps, ended)
    if not len(steps.row):
        raise LobsDICEError("no transitions are left: every episode is one terminal step")
    return steps


def _keep(episodes: Episodes, steps: _Steps, ended: np.ndarray) -> _Steps:
    return steps


def _drop(episodes: Episodes, steps: _Steps, ended: np.ndarray) -> _Steps:
    return _where(steps, ~ended)


def _restart(episodes: Episodes, steps: _Steps, ended: np.ndarray) -> _Steps:
    next_start = np.roll(episodes.starts, -1)[steps.episode]
    return steps._replace(next_row=np.where(ended, next_start, steps.next_row))


def _absorb(episodes: Episodes, steps: _Steps, ended: np.ndarray) -> _Steps:
    """Ended episodes enter the absorbing state, which loops on itself once for each entry."""
    absorbing = len(episodes.observations)
    steps = steps._replace(next_row=np.where(ended, absorbing, steps.next_row))
    who = steps.episode[ended]
    there = np.full(len(who), absorbing)
    loops = _Steps(np.full(len(who), -1), who, there, there)
    return _Steps(*map(np.concatenate, zip(steps, loops, strict=True)))


_TERMINAL = {"keep": _keep, "absorbing": _absorb, "restart": _restart, "drop": _drop}


def _where(steps: _Steps, mask: np.ndarray) -> _Steps:
    return _Steps(*(field[mask] for field in steps))


def _state_table(episodes: Episodes, normaliser: Normaliser) -> States:
    """The normalised observations and, below them, the absorbing state if there is one."""
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


def _check_options(expert: Episodes, offline: Episodes, initial: Initial | str, every: int) -> None:
    _space(offline)
    check_states("the expert", expert, "the offline data", offline)
    if initial not in get_args(Initial):
        raise LobsDICEError(f"initial is {initial!r}, not one of {get_args(Initial)}")
    if every < 1:
        raise LobsDICEError(f"every is {every}; it must be at least 1")


def _check_labelled(labelled: Episodes, offline: Episodes) -> None:
    check_states("the labelled part", labelled, "the offline data", offline)
    if labelled.action_space is None:
        raise LobsDICEError("the labelled demonstrations have no actions")
    if labelled.action_space != offline.action_space:
        raise LobsDICEError(
            f"the labelled demonstrations' actions are {labelled.action_space}, "
            f"the offline data's {offline.action_space}"
        )


def _refuse_leak(expert: Observations, offline: Observations) -> None:
    if leaked := count_leaked(expert, offline):
        raise LobsDICEError(
            f"{leaked} of the {len(expert.s)} expert pairs (s, s') occur in the action-labelled "
            "data, which would give the expert's actions away; remove those episodes, or allow "
            "the leak if it is meant"
        )
