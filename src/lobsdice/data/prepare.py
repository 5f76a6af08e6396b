"""Training data, built once from episodes and never changed.

`initial` chooses the states that stand for the initial distribution p0, because the paper and the
authors' code disagree:
    first       the first state of each offline episode (default; as in the authors' code)
    all         every offline state but the final ones (as in appendix I.2 of the paper)

The final states of episodes that terminated are kept apart, in `Data.ends`. What follows them is an
option of training; see docs/mathematics/ends.md. Truncated episodes have no end.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Int64

from lobsdice.data.episodes import Episodes, check_states
from lobsdice.data.normaliser import SCALE_OFFSET, Normaliser, fit_normaliser, scale_remarks
from lobsdice.data.repeats import shared_rows
from lobsdice.data.spaces import ActionSpace, Box
from lobsdice.errors import DataWarning, LobsDICEError

Initial = Literal["first", "all"]

States = Float32[np.ndarray, "n state"]


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


class Ends(NamedTuple):
    """The final states of the episodes that terminated."""

    expert: Float32[np.ndarray, "e state"]
    offline: Float32[np.ndarray, "o state"]
    source: Int64[np.ndarray, " o"]
    """The place in `Data.source_names` of each offline episode's source; for measures only."""
    labelled: Float32[np.ndarray, "l state"] | None = None


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
    ends: Ends | None = None
    """Final states; None stands for none."""
    every: int = 1
    """Only every n-th transition of the demonstrations was kept."""

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
) -> Data:
    """The training data from demonstrations (their actions are ignored) and offline data.

    With `every` = n, only every n-th transition of the demonstrations is kept. `labelled` are
    demonstrations with actions, which only the algorithms that need some will see.

    If expert pairs (s, s') occur in the offline data, the data leaks the expert's actions. That is
    an error unless `allow_leak` is true. In small discrete worlds such pairs occur by chance.
    """
    _check_options(expert, offline, initial, every)
    if labelled is not None:
        _check_labelled(labelled, offline)
    if not allow_leak:
        _refuse_leak(observations(expert, every=every), observations(offline))
    normaliser = fit_normaliser(offline)
    for remark in scale_remarks(offline, normaliser.scale - np.float32(SCALE_OFFSET)):
        warnings.warn(f"the offline data: {remark}", DataWarning, stacklevel=2)
    table, source = normaliser(offline.observations), _sources(offline)
    return Data(
        init=table[offline.starts if initial == "first" else offline.step_rows],
        expert=observations(expert, every=every, normaliser=normaliser),
        offline=transitions(offline, normaliser=normaliser),
        normaliser=normaliser,
        action_space=_space(offline),
        source=source[offline.step_episodes],
        source_names=offline.source_names or ("offline",),
        labelled=None
        if labelled is None
        else transitions(labelled, every=every, normaliser=normaliser),
        episode=offline.step_episodes,
        ends=_ends(expert, offline, labelled, normaliser),
        every=every,
    )


def observations(
    episodes: Episodes, *, every: int = 1, normaliser: Normaliser | None = None
) -> Observations:
    """The state pairs (s, s') of some episodes."""
    rows = episodes.step_rows[_kept(episodes, every)]
    table = (normaliser or _identity(episodes))(episodes.observations)
    return Observations(table[rows], table[rows + 1])


def transitions(
    episodes: Episodes, *, every: int = 1, normaliser: Normaliser | None = None
) -> Transitions:
    """The transitions (s, a, s') of some episodes with actions."""
    s, s_next = observations(episodes, every=every, normaliser=normaliser)
    space, actions = _space(episodes), episodes.actions
    assert actions is not None
    actions = space.encode(actions) if isinstance(space, Box) else actions
    return Transitions(s, actions[_kept(episodes, every)], s_next)


def count_leaked(expert: Observations, offline: Observations | Transitions) -> int:
    """The number of expert pairs (s, s') that also occur in the offline data, to the last bit."""
    ours, theirs = (np.concatenate([x.s, x.s_next], axis=1) for x in (expert, offline))
    return int(shared_rows(ours, theirs).sum())


def _kept(episodes: Episodes, every: int) -> Bool[np.ndarray, " steps"]:
    return episodes.step_numbers % every == 0


def _ends(
    expert: Episodes, offline: Episodes, labelled: Episodes | None, normaliser: Normaliser
) -> Ends:
    def final(episodes: Episodes) -> States:
        return normaliser(episodes.observations[episodes.ends[episodes.terminated]])

    source = _sources(offline)[offline.terminated]
    return Ends(
        final(expert), final(offline), source, None if labelled is None else final(labelled)
    )


def _identity(episodes: Episodes) -> Normaliser:
    width = episodes.state_size
    return Normaliser(np.zeros(width, np.float32), np.ones(width, np.float32))


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
