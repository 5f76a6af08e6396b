"""Training data, built once from episodes and never changed.

`initial` chooses the states that stand for the initial distribution p0, because the paper and the
authors' code disagree:
    first       the first state of each offline episode (default; as in the authors' code)
    all         every offline state but the final ones (as in appendix I.2 of the paper)

The final states of episodes that terminated are kept apart, in `Data.ends`. What follows them is an
option of training; see docs/mathematics/ends.md. Truncated episodes have no end.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float32, Int, Int64
from numpy.typing import ArrayLike

from lobsdice.data.checks import check_finite, numeric
from lobsdice.data.context import blur
from lobsdice.data.display import html_of, listed, text_of
from lobsdice.data.episodes import (
    Episodes,
    check_action_order,
    check_states,
    numbered_in,
    renamed,
    require_episodes,
)
from lobsdice.data.leaks import refuse_leak
from lobsdice.data.normaliser import SCALE_OFFSET, Normaliser, fit_normaliser, scale_remarks
from lobsdice.data.pool import Blocks, divide
from lobsdice.data.spaces import ActionSpace, Box, Discrete
from lobsdice.data.steps import Observations as Observations, Steps, Transitions as Transitions
from lobsdice.errors import DataWarning, LobsDICEError

Initial = Literal["first", "all"]
#: A number for each logged step, or a function of (s, a, s') that gives them.
Rewards = Callable[[Any, Any, Any], ArrayLike] | ArrayLike

#: Steps of such logs, about, in which features that never change in an episode are looked for.
LOOKED_AT = 1_000_000
#: The most initial states, and the most ends, of logs that are not all in memory.
MOST = 1 << 18

States = Float32[np.ndarray, "n state"]


class Ends(NamedTuple):
    """The final states of the episodes that terminated."""

    expert: Float32[np.ndarray, "e state"]
    offline: Float32[np.ndarray, "o state"]
    source: Int64[np.ndarray, " o"]
    """The place in `Data.source_names` of each offline episode's source; for measures only."""
    labelled: Float32[np.ndarray, "l state"] | None = None


class Ahead(NamedTuple):
    """Facts for algorithms that look two states ahead."""

    expert: Bool[Any, " n"]
    """True for the demonstrated steps with which an episode terminates."""
    offline: Bool[Any, " m"]
    """The same for the offline steps."""
    first: Int[Any, " n0"]
    """The number of the offline step that begins at each state of `init`."""


@dataclass(frozen=True, eq=False, repr=False)
class Data:
    """The data that training sees; states are normalised."""

    init: Float32[np.ndarray, "n0 state"]
    expert: Steps
    offline: Steps
    normaliser: Normaliser
    action_space: ActionSpace
    source: Int64[np.ndarray, " n"]
    """The place in `source_names` of each offline transition's source; for measures only."""
    source_names: tuple[str, ...]
    labelled: Steps | None = None
    """Demonstrations with actions, for the algorithms that need some."""
    episode: Int64[np.ndarray, " n"] | None = None
    """The number of each offline transition's episode, if it is known; for measures only."""
    ends: Ends | None = None
    """Final states; None stands for none."""
    every: int = 1
    """Only every n-th transition of the demonstrations was kept."""
    ended: Bool[np.ndarray, " n"] | None = None
    """True for each offline transition that leads to a final state, if that is known."""
    expert_episode: Int64[np.ndarray, " m"] | None = None
    """The number of each demonstrated pair's demonstration, if it is known."""
    rewards: Float32[np.ndarray, " n"] | None = None
    """The reward of each offline transition, for the algorithms that are told to learn from it."""
    ahead: Ahead | None = None
    """The steps that follow; None if that is unknown, or if transitions were left out."""
    blur: Float32[np.ndarray, " state"] | None = None
    """The noise with which discriminators see each feature, see `context`; None if none."""
    blocks: Blocks | None = None
    """All logs, if `offline` holds only some of their steps at first."""

    def __repr__(self) -> str:
        return text_of("Data", self._facts())

    def _repr_html_(self) -> str:
        return html_of("Data", self._facts())

    def _facts(self) -> dict[str, str]:
        names = self.normaliser.names
        logged = self.blocks.episodes.steps if self.blocks else self.offline.size
        facts = {
            "demonstrated": f"{self.expert.size:,} state pairs",
            "logged": f"{logged:,} transitions",
            "initial": f"{len(self.init):,} states",
            "observations": f"{self.state_size}{': ' if names else ''}{listed(names)}",
            "actions": str(self.action_space),
        }
        several = len(self.source_names) > 1
        return facts | ({"sources": listed(self.source_names)} if several else {})

    @property
    def end_weight(self) -> float:
        """The number of ends in as many steps as are in memory, for each end that is kept."""
        if self.blocks is None or self.ends is None or not len(self.ends.offline):
            return 1.0
        every = self.blocks.episodes
        ends = int(every.terminated.sum()) / len(self.ends.offline)
        return ends * self.offline.size / every.steps

    @property
    def state_size(self) -> int:
        """The number of features of a normalised state."""
        return self.init.shape[1]


def prepare(
    expert: Episodes,
    offline: Episodes,
    *,
    initial: Initial | str = "first",
    every: int = 1,
    allow_leak: bool = False,
    labelled: Episodes | None = None,
    rewards: Rewards | None = None,
    pool: int | None = None,
) -> Data:
    """The training data from demonstrations (their actions are ignored) and offline data.

    With `every` = n, only every n-th transition of the demonstrations is kept. `labelled` are
    demonstrations with actions, which only the algorithms that need some will see. `rewards` are
    for algorithms that learn from rewards of your own: a number for each logged step, or a function
    of the arrays (s, a, s') in the files' units. Without them the file's own rewards are taken.
    With `pool`, about so many logged steps are in memory at a time, and others take their place
    as training goes on; see docs/scaling.md.

    If expert pairs (s, s') occur in the offline data, the data leaks the expert's actions. That is
    an error unless `allow_leak` is true. In small discrete worlds such pairs occur by chance.
    """
    require_episodes(expert=expert, offline=offline)
    check_options(expert, offline, initial, every)
    if labelled is not None:
        labelled = _fitting(labelled, offline)
    if not allow_leak:
        refuse_leak(observations(expert, every=every), offline)
    normaliser = _fitted(offline)
    blocks, logged = _logged(offline, normaliser, initial, rewards, pool)
    return Data(
        init=normaliser(offline.observations[logged.init]),
        expert=observations(expert, every=every, normaliser=normaliser),
        offline=logged.steps,
        normaliser=normaliser,
        action_space=_space(offline),
        source=_sources(offline)[logged.episode],
        source_names=offline.source_names or ("offline",),
        labelled=None
        if labelled is None
        else transitions(labelled, every=every, normaliser=normaliser),
        episode=logged.episode,
        ends=_ends(expert, offline, labelled, normaliser, logged.ends),
        every=every,
        ended=logged.ended,
        expert_episode=expert.step_episodes[_kept(expert, every)],
        rewards=logged.rewards,
        ahead=look_ahead(expert, offline, initial) if every == 1 and blocks is None else None,
        blur=blur(expert, offline if blocks is None else offline.spread(LOOKED_AT)),
        blocks=blocks,
    )


def _fitted(offline: Episodes) -> Normaliser:
    """The normaliser of the offline data, with warnings about features of odd scales."""
    normaliser = fit_normaliser(offline)
    for remark in scale_remarks(offline, normaliser.scale - np.float32(SCALE_OFFSET)):
        warnings.warn(f"the offline data: {remark}", DataWarning, stacklevel=3)
    return normaliser


class _Logged(NamedTuple):
    """The logged steps in memory, and what is known of each."""

    steps: Steps
    init: Int64[np.ndarray, " n0"]
    """The rows of initial states."""
    ends: Int64[np.ndarray, " o"]
    """The episodes that terminated."""
    episode: Int64[np.ndarray, " n"]
    ended: Bool[np.ndarray, " n"]
    rewards: Float32[np.ndarray, " n"] | None

    @classmethod
    def all(
        cls, offline: Episodes, normaliser: Normaliser, initial: str, rewards: Rewards | None
    ) -> "_Logged":
        """All steps."""
        return cls(
            transitions(offline, normaliser=normaliser),
            offline.starts if initial == "first" else offline.step_rows,
            np.flatnonzero(offline.terminated),
            offline.step_episodes,
            _ended(offline),
            _rewards(offline, rewards),
        )

    @classmethod
    def some(cls, blocks: Blocks, initial: str, rewards: Rewards | None) -> "_Logged":
        """The steps in the pool at first."""
        if rewards is not None:
            raise LobsDICEError("rewards of your own need all logs in memory; leave `pool` out")
        offline, which = blocks.episodes, blocks.numbers(0)
        episode = offline.episode_of(which)
        last = which == (offline.step_starts + offline.lengths - 1)[episode]
        some = _spread(offline.steps)
        of = offline.episode_of(some)
        ended = np.flatnonzero(offline.terminated)
        return cls(
            blocks.pool(0),
            offline.starts[_spread(len(offline))] if initial == "first" else some + of,
            ended[_spread(len(ended))],
            episode,
            last & offline.terminated[episode],
            None if offline.rewards is None else offline.rewards[which],
        )


def _logged(
    offline: Episodes,
    normaliser: Normaliser,
    initial: str,
    rewards: Rewards | None,
    pool: int | None,
) -> tuple[Blocks | None, _Logged]:
    """All logs in blocks, if they have more steps than `pool`, and the steps in memory."""
    if pool is None or pool >= offline.steps:
        return None, _Logged.all(offline, normaliser, initial, rewards)
    blocks = divide(offline, normaliser, pool)
    return blocks, _Logged.some(blocks, initial, rewards)


def _spread(size: int) -> Int64[np.ndarray, " n"]:
    """All numbers below `size`, or `MOST` of them evenly spaced."""
    return np.arange(min(size, MOST)) * size // max(min(size, MOST), 1)


def look_ahead(expert: Episodes, offline: Episodes, initial: str = "first") -> Ahead:
    """The steps that follow in the episodes."""
    first = offline.step_numbers == 0 if initial == "first" else np.ones(offline.steps, bool)
    return Ahead(_ended(expert), _ended(offline), np.flatnonzero(first).astype(np.int32))


def observations(
    episodes: Episodes, *, every: int = 1, normaliser: Normaliser | None = None
) -> Steps:
    """The steps of some episodes, without actions."""
    table = normaliser(episodes.observations) if normaliser else episodes.observations
    final = np.zeros(len(table), bool)
    final[episodes.ends] = True
    return Steps(table, final, episodes.step_rows[_kept(episodes, every)].astype(np.int32))


def transitions(
    episodes: Episodes, *, every: int = 1, normaliser: Normaliser | None = None
) -> Steps:
    """The steps of some episodes with actions."""
    space, actions = _space(episodes), episodes.actions
    assert actions is not None
    actions = space.encode(actions) if isinstance(space, Box) else actions
    steps = observations(episodes, every=every, normaliser=normaliser)
    return steps._replace(a=actions[_kept(episodes, every)])


def _kept(episodes: Episodes, every: int) -> Bool[np.ndarray, " steps"]:
    return episodes.step_numbers % every == 0


def _ends(
    expert: Episodes,
    offline: Episodes,
    labelled: Episodes | None,
    normaliser: Normaliser,
    which: Int64[np.ndarray, " o"],
) -> Ends:
    def final(episodes: Episodes, which: Any = None) -> States:
        which = episodes.terminated if which is None else which
        return normaliser(episodes.observations[episodes.ends[which]])

    return Ends(
        final(expert),
        final(offline, which),
        _sources(offline)[which],
        None if labelled is None else final(labelled),
    )


def _ended(episodes: Episodes) -> Bool[np.ndarray, " steps"]:
    last = episodes.step_numbers == episodes.lengths[episodes.step_episodes] - 1
    return last & episodes.terminated[episodes.step_episodes]


def _rewards(offline: Episodes, given: Rewards | None) -> Float32[np.ndarray, " steps"] | None:
    """The rewards that were given, or else those of the file."""
    if given is None:
        return offline.rewards
    if callable(given):
        rows = offline.step_rows
        given = given(offline.observations[rows], offline.actions, offline.observations[rows + 1])
    found = numeric("rewards", given, np.float32)
    if len(found) != offline.steps:
        raise LobsDICEError(
            f"`rewards` has {len(found):,} numbers; the logs have {offline.steps:,} steps"
        )
    check_finite("rewards", found[:, None])
    return found


def _space(episodes: Episodes) -> ActionSpace:
    if episodes.action_space is None:
        raise LobsDICEError("the offline data has no actions; only demonstrations may lack them")
    return episodes.action_space


def _sources(episodes: Episodes) -> Int64[np.ndarray, " episodes"]:
    return np.zeros(len(episodes), np.int64) if episodes.source is None else episodes.source


def _list(choices: Any) -> str:
    return ", ".join(map(repr, get_args(choices)))


def check_options(
    expert: Episodes, offline: Episodes, initial: Initial | str = "first", every: int = 1
) -> None:
    """Raise an error if no training data can be made of these."""
    if offline.action_space is None and expert.action_space is not None:
        raise LobsDICEError(
            "the offline data has no actions, but the expert data has some: are the two swapped?"
        )
    _space(offline)
    check_states("the expert data", expert, "the offline data", offline)
    for sentence in renamed("the expert data", expert, "the offline data", offline):
        warnings.warn(sentence, DataWarning, stacklevel=3)
    if initial not in get_args(Initial):
        raise LobsDICEError(f"`initial` is {initial!r}; it must be one of {_list(Initial)}")
    if every < 1:
        raise LobsDICEError(
            f"cannot keep every {every}-th transition of the demonstrations; n must be at least 1"
        )


def _fitting(labelled: Episodes, offline: Episodes) -> Episodes:
    """The labelled demonstrations with the offline data's numbers of actions that have names."""
    check_states("the labelled data", labelled, "the offline data", offline)
    check_action_order("the labelled data", labelled, "the offline data", offline)
    ours, theirs = labelled.action_space, _space(offline)
    if ours is None:
        raise LobsDICEError("the labelled demonstrations have no actions")
    named = isinstance(ours, Discrete) and isinstance(theirs, Discrete) and ours.names
    if named and {*ours.names} <= {*theirs.names}:
        return replace(
            labelled, actions=numbered_in(labelled, theirs), action_space=theirs, valid=True
        )
    if ours != theirs:
        raise LobsDICEError(
            f"the labelled demonstrations have the action space {ours}, "
            f"but the offline data has {theirs}"
        )
    return labelled
