"""Estimates of an MDP and of occupancies, counted from recorded episodes that end or are truncated.

An episode is s_0, a_0, s_1, …, s_T. If it terminated, f = s_T is a final state, and one more row
stands for what follows. A truncated episode has no such row, as nothing is known after s_T.

    row                      discounted     uniform
    (s_t, a_t, s_{t+1})      γ^t            1
    (f, s0'), `restart`      γ^T            1
    (f, f), `stay`           γ^T / (1-γ)    γ / (1-γ)

`keep` has no row after f. The weights are divided by their sum. Without truncation, the discounted
ones are consistent for the occupancy of the process (`with_ends`); docs/mathematics/ends.md has the
proof. Uniform ones are what networks draw. Under restart both are the same at γ = 1.
"""

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float, Int

from lobsdice.data.episodes import Episodes
from lobsdice.data.spaces import Discrete
from lobsdice.equations.terminal import Terminal, check_terminal
from lobsdice.errors import LobsDICEError
from lobsdice.tabular.ends import with_ends
from lobsdice.tabular.mdp import MDP, Floats, from_counts

#: How much each row of an episode counts.
Rows = Literal["discounted", "uniform"]


class Estimates(NamedTuple):
    """The inputs of the tabular methods, counted from demonstrations and logs."""

    mdp: MDP
    d_expert: Float[np.ndarray, "S S"]
    d_offline: Float[np.ndarray, "S A"]
    d_labelled: Float[np.ndarray, "S A"] | None
    """d^E(s,a) for `demodice`; None if the demonstrations have no actions."""


class _Weights(NamedTuple):
    """The weight of each step, and of what follows the end of each episode."""

    step: Float[np.ndarray, " steps"]
    end: Float[np.ndarray, " episodes"]

    @property
    def total(self) -> float:
        return self.step.sum() + self.end.sum()


def estimate(
    expert: Episodes,
    offline: Episodes,
    *,
    states: int,
    gamma: float,
    terminal: Terminal | str = "restart",
    rows: Rows | str = "discounted",
) -> Estimates:
    """Count demonstrations and logs in a world of `states` states and discrete actions.

    Observations have one column, the number of the state. p0 is estimated from the logs alone, as
    for networks. Transition probabilities are relative counts of steps, whatever the `rows`. Under
    `restart` and `stay`, a state that ends an episode must end every episode that enters it. The
    mass of a final state is spread evenly over the actions, which has no effect on the solution.
    """
    check_terminal(terminal, gamma)
    if rows not in get_args(Rows):
        raise LobsDICEError(f"rows are {' or '.join(get_args(Rows))}, but are {rows!r}")
    actions = _action_count(expert, offline)
    at = _states(offline, states)
    steps = (at[offline.step_rows], offline.actions, at[offline.step_rows + 1])
    counts = _table((states, actions, states), steps, np.ones(offline.steps))
    initial = np.bincount(at[offline.starts], minlength=states)
    final = [] if terminal == "keep" else _final_states(states, expert, offline)
    mdp = with_ends(from_counts(counts, initial, gamma), final, terminal)
    of_expert, of_logs = (_weights(data, gamma, terminal, rows) for data in (expert, offline))
    return Estimates(
        mdp,
        d_expert=_by_pair(expert, of_expert, mdp),
        d_offline=_by_action(offline, of_logs, mdp),
        d_labelled=None if expert.actions is None else _by_action(expert, of_expert, mdp),
    )


def truncation_loss(episodes: Episodes, gamma: float, terminal: Terminal | str) -> float:
    """The largest share of the discounted occupancy that lies after truncations.

    It bounds the total variation between the estimate and the one without truncations. Under `stay`
    it is that share itself. With γ = 1 it is one: nothing bounds what a truncated episode hides.
    """
    check_terminal(terminal, gamma)
    cut = ~episodes.terminated
    if gamma == 1:
        return float(cut.any())
    hidden = gamma ** episodes.lengths[cut] / (1 - gamma)
    seen = _weights(episodes, gamma, terminal, "discounted").total
    return float(hidden.sum() / (seen + hidden.sum()))


def _weights(episodes: Episodes, gamma: float, terminal: str, rows: str) -> _Weights:
    discounted = rows == "discounted"
    step = gamma**episodes.step_numbers if discounted else np.ones(episodes.steps)
    end = gamma**episodes.lengths if discounted else np.ones(len(episodes))
    if terminal == "stay":
        end = (end if discounted else gamma * end) / (1 - gamma)
    return _Weights(step, np.where(episodes.terminated & (terminal != "keep"), end, 0.0))


def _by_pair(episodes: Episodes, weights: _Weights, mdp: MDP) -> Floats:
    """d(s,s')."""
    at = _states(episodes, mdp.states)
    steps = (at[episodes.step_rows], at[episodes.step_rows + 1])
    ends = _table((mdp.states,), (at[episodes.ends],), weights.end)
    # All actions of a final state lead to the same states, so the first one stands for them.
    after = ends[:, None] * mdp.transition[:, 0]
    return (_table((mdp.states, mdp.states), steps, weights.step) + after) / weights.total


def _by_action(episodes: Episodes, weights: _Weights, mdp: MDP) -> Floats:
    """d(s,a)."""
    at = _states(episodes, mdp.states)
    steps = (at[episodes.step_rows], episodes.actions)
    ends = _table((mdp.states,), (at[episodes.ends],), weights.end)
    d = _table((mdp.states, mdp.actions), steps, weights.step)
    return (d + ends[:, None] / mdp.actions) / weights.total


def _table(shape: tuple[int, ...], index: tuple[Any, ...], weights: Floats) -> Floats:
    """The sum of the weights at each index."""
    table = np.zeros(shape)
    np.add.at(table, index, weights)
    return table


def _states(episodes: Episodes, states: int) -> Int[np.ndarray, " rows"]:
    """The number of the state in each row of the observations."""
    if episodes.state_size != 1:
        raise LobsDICEError(
            f"observations must be one column of state numbers, but have {episodes.state_size}"
        )
    values = episodes.observations[:, 0]
    numbers = values.astype(np.int64)
    wrong = np.flatnonzero((numbers != values) | (numbers < 0) | (numbers >= states))
    if wrong.size:
        raise LobsDICEError(
            f"states must be whole numbers from 0 to {states - 1}, but one is {values[wrong[0]]:g}"
        )
    return numbers


def _action_count(expert: Episodes, offline: Episodes) -> int:
    space, shown = offline.action_space, expert.action_space
    if not isinstance(space, Discrete):
        raise LobsDICEError(f"the logs must have discrete actions, but have {space}")
    if shown is not None and not (isinstance(shown, Discrete) and shown.n <= space.n):
        raise LobsDICEError(f"the demonstrations have the actions {shown}, but the logs {space}")
    return space.n


def _final_states(states: int, *datasets: Episodes) -> Int[np.ndarray, " k"]:
    """The states in which episodes terminated; an error if an episode goes on from one."""
    numbers = [_states(episodes, states) for episodes in datasets]
    both = list(zip(numbers, datasets, strict=True))
    final = np.unique(np.concatenate([at[e.ends[e.terminated]] for at, e in both]))
    left = np.unique(np.concatenate([at[e.step_rows] for at, e in both]))
    passed = np.intersect1d(final, left)
    if passed.size:
        raise LobsDICEError(
            f"state {passed[0]} ends an episode, but another step leaves it; a final state must "
            "end every episode, so give the ended ones a state number of their own"
        )
    return final
