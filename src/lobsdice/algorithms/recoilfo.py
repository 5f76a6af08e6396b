"""ReCOIL from observation: our state-only form of ReCOIL (see `recoil`). It is in no paper.

The critics score where a step leads, Q(s,s'), in the place of the action. So demonstrations need no
actions. All else is ReCOIL's:

    min_Q  ½ E_E[(Q(s,s') - best)²] + ½ E_I[(Q(s,s') - (γ V(s') - cost))²]
    min_V  E_I[e^z - z - 1],   z = (Q(s,s') - V(s)) / temperature
    max_π  E_I[w log π(a|s)],   w = min(exp(β (Q(s,s') - V(s))), 100)

V is the soft maximum over the next states in the logs. In a noisy world that is too hopeful: it
takes luck for skill, as LobsDICE's single sample does.
"""

from typing import Any, ClassVar

from jaxtyping import Array, Key

from lobsdice.algorithms.base import hyperparameters
from lobsdice.algorithms.batch import Batch
from lobsdice.algorithms.networks import Features, PolicyNet
from lobsdice.algorithms.recoil import Scoring
from lobsdice.algorithms.registry import STATE_PAIRS, register
from lobsdice.data.prepare import Observations
from lobsdice.data.spaces import ActionSpace


@register
@hyperparameters
class ReCOILfO(Scoring):
    """Hyperparameters of our state-only ReCOIL. The defaults are ReCOIL's."""

    summary: ClassVar = "ReCOIL without the expert's actions (ours): score where steps lead."
    citation: ClassVar = "ours, after Sikchi et al. 2024, arXiv:2302.08560"
    needs: ClassVar = STATE_PAIRS

    def seen_size(self, state_size: int, space: ActionSpace) -> int:
        return 2 * state_size

    def shown(self, batch: Batch) -> Observations:
        return batch.expert

    def done(self, policy: PolicyNet, rows: Any, key: Key[Array, ""]) -> Features:
        return rows.s_next
