"""MDPs whose episodes end: what follows a final state, as an ordinary MDP.

    restart    a step to a draw from p0: the task is done again and again
    stay       the final state itself, for ever; needs γ < 1
    keep       what the MDP says, or nothing in recorded episodes

The step of `restart` and `stay` has no action. So it is the same for all actions of the MDP, and
every policy is as good as any other there. Each final state remains a state of its own, so a goal
and a pit stay different.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool

from lobsdice.equations.terminal import Terminal, check_terminal
from lobsdice.errors import LobsDICEError
from lobsdice.tabular.mdp import MDP


def with_ends(mdp: MDP, final: Sequence[int] | np.ndarray, terminal: Terminal | str) -> MDP:
    """The MDP in which `terminal` says what follows the `final` states.

    `final` are state numbers. What the MDP itself says about their actions is replaced. A batch of
    MDPs has the same final states in each.
    """
    check_terminal(terminal, mdp.gamma)
    ended = _mask(final, mdp.states)
    if terminal == "keep":
        return mdp
    if mdp.sparse:
        return MDP(_replace_sparse(mdp, ended, terminal), mdp.initial, mdp.gamma)
    stay = np.eye(mdp.states)[:, None, :]
    after = stay if terminal == "stay" else mdp.initial[..., None, None, :]
    transition = np.where(ended[:, None, None], after, mdp.transition)
    return MDP(transition, mdp.initial, mdp.gamma)


def _mask(final: Any, states: int) -> Bool[np.ndarray, " S"]:
    numbers = np.asarray(final, dtype=np.int64)
    wrong = numbers[(numbers < 0) | (numbers >= states)]
    if wrong.size:
        raise LobsDICEError(f"final state {wrong[0]} is not among the states 0 to {states - 1}")
    return np.isin(np.arange(states), numbers)


def _replace_sparse(mdp: MDP, ended: Bool[np.ndarray, " S"], terminal: str) -> sp.csr_matrix:
    replaced = np.repeat(ended, mdp.actions).astype(float)
    if terminal == "stay":
        row = np.arange(replaced.size)
        places = (row, row // mdp.actions)
        after = sp.csr_matrix((replaced, places), shape=mdp.transition.shape)
    else:
        after = sp.csr_matrix(replaced[:, None]) @ sp.csr_matrix(mdp.initial[None])
    return sp.csr_matrix(sp.diags(1 - replaced) @ mdp.transition + after)
