"""Figure 3 of the paper: the reason to match state pairs rather than states.

On a ring, every policy that acts alike in all states visits all states equally often, in either
direction. So the distribution of states cannot tell an expert who goes counter-clockwise from one
who goes clockwise. The distribution of state pairs can. Two datasets show it: one of a policy that
goes either way, and one of a policy that goes mostly the wrong way.
"""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from lobsdice import tabular
from lobsdice.data.files import write_csv
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.plots.circle import circle
from lobsdice.experiments.plots.common import save
from lobsdice.tabular import MDP

TABLE = "circle.csv"
COUNTER_CLOCKWISE, CLOCKWISE = 0, 1
#: The share of counter-clockwise steps in the offline data.
DATA = {"either way": 0.5, "mostly clockwise": 0.25}
METHODS = {"matching states": tabular.lobsdice_state, "matching state pairs": tabular.lobsdice}

Floats = Float[np.ndarray, "..."]


def ring(states: int, gamma: float) -> MDP:
    """The MDP: action 0 goes counter-clockwise, action 1 clockwise; all states are initial."""
    ahead = np.roll(np.eye(states), 1, axis=1)
    transition = np.stack([ahead, ahead.T], axis=1)
    return MDP(transition, np.full(states, 1 / states), gamma)


def constant_policy(states: int, counter_clockwise: float) -> Floats:
    """The policy with the same probability of going counter-clockwise in all states."""
    return np.tile([counter_clockwise, 1 - counter_clockwise], (states, 1))


def experiment(folder: Path, *, states: int, gamma: float, alpha: float) -> list[Path]:
    """Learn from the counter-clockwise expert with each method; write the table and its figure."""
    if states < 3:
        raise LobsDICEError(f"a ring with two directions has at least 3 states, not {states}")
    rows = table(ring(states, gamma), alpha)
    path = write_csv(folder / TABLE, rows)
    return [path, *save(circle(path), folder / "circle")]


def table(mdp: MDP, alpha: float) -> list[dict[str, Any]]:
    """The rows of the data's policies and the learned ones, with their distances to the expert."""
    expert = constant_policy(mdp.states, 1.0)
    d_expert = tabular.pair_occupancy(mdp, tabular.occupancy(mdp, expert))
    rows = []
    for data, share in DATA.items():
        behaviour = constant_policy(mdp.states, share)
        d_offline = tabular.occupancy(mdp, behaviour)
        rows += describe(mdp, d_expert, behaviour, data=data, matched="the data")
        for matched, method in METHODS.items():
            policy = method(mdp, d_expert, d_offline, alpha=alpha).policy
            rows += describe(mdp, d_expert, policy, data=data, matched=matched)
    return rows


def describe(
    mdp: MDP, d_expert: Floats, policy: Floats, *, data: str, matched: str
) -> list[dict[str, Any]]:
    """The rows of a policy, one for each state."""
    pairs = tabular.pair_occupancy(mdp, tabular.occupancy(mdp, policy))
    of_states = 0.5 * abs(pairs.sum(1) - d_expert.sum(1)).sum()
    of_pairs = tabular.total_variation(pairs, d_expert)
    return [
        {
            "data": data,
            "matched": matched,
            "state": state,
            "counter_clockwise": f"{policy[state, COUNTER_CLOCKWISE]:.5f}",
            "state_total_variation": f"{of_states:.5f}",
            "pair_total_variation": f"{of_pairs:.5f}",
        }
        for state in range(mdp.states)
    ]
