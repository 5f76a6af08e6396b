"""Demonstrated pairs (s, s') that also occur in the logs, where they come with the actions."""

import numpy as np

from lobsdice.data.display import listed
from lobsdice.data.episodes import Episodes
from lobsdice.data.repeats import distinct_rows, shared_rows
from lobsdice.data.steps import Steps
from lobsdice.errors import LobsDICEError

#: If more than this share of the logged pairs repeats others, equal pairs arise by chance.
CHANCE = 0.05
#: The most logged pairs that are looked at for that.
LOOKED_AT = 50_000
#: The most names in the error.
NAMED = 5


def count_leaked(expert: Steps, offline: Steps) -> int:
    """The number of expert pairs (s, s') that also occur in the offline data, to the last bit."""
    return int(shared_rows(expert.pairs, offline.pair_blocks()).sum())


def refuse_leak(expert: Steps, offline: Episodes) -> None:
    """Raise an error if there is a leak."""
    shown = expert.pairs
    if not (leaked := int(shared_rows(shown, offline.pair_blocks()).sum())):
        return
    found = (
        f"{leaked} of the {expert.size} demonstrated pairs (s, s') occur in the logs, to the last "
        "bit"
    )
    if chance := _chance(offline):
        raise LobsDICEError(
            f"{found}; {chance}, so that equal pairs arise by chance: set `allow_leak` if the logs "
            "were recorded apart from the demonstrations, and remove these from the logs if not"
        )
    here = np.concatenate([shared_rows(pairs, [shown]) for pairs in offline.pair_blocks()])
    holding = np.unique(offline.episode_of(np.flatnonzero(here)))
    names = listed([offline.called(int(i)) for i in holding], NAMED)
    raise LobsDICEError(
        f"{found}, so that the logs show the demonstrator's actions; they are in the logged "
        f"episodes {names}: remove these, or set `allow_leak` if the leak is meant"
    )


def _chance(offline: Episodes) -> str:
    """Say so if equal pairs are no evidence, because the logs have few different ones."""
    pairs = next(offline.pair_blocks())[:LOOKED_AT]
    different = len(distinct_rows(pairs)[0])
    if different > (1 - CHANCE) * len(pairs):
        return ""
    return (
        f"but only {different:,} of {len(pairs):,} logged pairs differ from each other, as with "
        "rounded sensors or a finite number of states"
    )
