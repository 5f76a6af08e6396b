"""What there is to say about what a learner sees, as a plain dictionary."""

from typing import Any

import numpy as np

from lobsdice.data.prepare import Data, count_leaked
from lobsdice.data.spaces import ActionSpace, Box


def of_data(data: Data) -> dict[str, Any]:
    """The sizes of everything; pairs that are in both sets are the leak, if there is one."""
    counts = np.bincount(data.source, minlength=len(data.source_names)).tolist()
    return {
        "expert_pairs": len(data.expert.s),
        "offline_transitions": len(data.offline.s),
        "initial_states": len(data.init),
        "state_size": data.state_size,
        "actions": _space(data.action_space),
        "sources": dict(zip(data.source_names, counts, strict=True)),
        "expert_pairs_in_offline": count_leaked(data.expert, data.offline),
    }


def _space(space: ActionSpace) -> dict[str, Any]:
    if isinstance(space, Box):
        return {"kind": "continuous", "low": list(space.low), "high": list(space.high)}
    return {"kind": "discrete", "count": space.n}
