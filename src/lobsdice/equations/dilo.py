"""The loss of DILO (Sikchi et al., CoRL 2024, arXiv:2406.08805) as functions of values.

paper              here         meaning
V(s,s')            v            utility of a pair of states
γ V(s',s'') - V    y            the residual of a triple
f*                 conjugate    of χ², f(w) = (w-1)², for w ≥ 0
β                  MIXTURE      the expert's share of the mixture
"""

from jaxtyping import Array, Float

from lobsdice.equations.duals import Values, chi2_conjugate
from lobsdice.equations.expectations import Probs, mean

#: The expert's share of the mixture. The authors' code has no other.
MIXTURE = 0.5


def conjugate(y: Values) -> Values:
    """max_{w≥0} w y - (w-1)², which is y + y²/4 for y > -2, and -1 otherwise."""
    return 2 * chi2_conjugate(y / 2)


def mixture_term(
    y_expert: Values, y_offline: Values, p_expert: Probs = None, p_offline: Probs = None
) -> Float[Array, ""]:
    """β E_E[f*(y)] + (1-β) E_I[f*(y)] - (1-β) E_I[y]."""
    expert, offline = mean(conjugate(y_expert), p_expert), mean(conjugate(y_offline), p_offline)
    return MIXTURE * expert + (1 - MIXTURE) * (offline - mean(y_offline, p_offline))
