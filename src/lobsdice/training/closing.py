"""The sentence after training: what was learned from, how the weights lie, and whether it failed.

It knows no returns. docs/select.md says how far to trust the offline measure that it rests on.
"""

from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Float64

from lobsdice.data.ends import never_near_an_end
from lobsdice.data.episodes import Episodes
from lobsdice.data.prepare import Data
from lobsdice.data.recordings import Recordings
from lobsdice.data.spaces import Discrete
from lobsdice.errors import LobsDICEError, plural
from lobsdice.training.diagnostics import (
    TRIVIAL,
    Weighing,
    constant_error,
    episode_weights,
    infer_actions,
    row_weights,
)
from lobsdice.training.fleet import Fleet
from lobsdice.training.folder import RunFolder
from lobsdice.training.loggers import Row
from lobsdice.training.select import CRITERION

#: The most logged rows that the sentence looks at: it must not take long.
MOST_ROWS = 200_000
#: The most heavy episodes that are looked at.
HEAVIEST = 20
#: The last policy is worse than the selected one if its error is so many times as large.
WORSE = 1.25

Shares = Float64[np.ndarray, " episodes"]


def closing(
    fleet: Fleet,
    rows: Sequence[Row],
    failures: Sequence[int],
    recordings: Recordings,
    folder: RunFolder,
) -> tuple[str, bool]:
    """One sentence about finished runs, and True if they failed by offline measures."""
    last = [row for row in rows if row["step"] == rows[-1]["step"]]
    judged, failed = _judged(fleet.datas[0], rows, last)
    parts = [
        _learned(recordings),
        f"{plural(len(failures), 'run')} of {len(fleet.members)} stopped early" if failures else "",
        _spread(last),
        _heaviest(fleet, recordings, folder),
        judged,
    ]
    return "; ".join(part for part in parts if part), failed


def _learned(recordings: Recordings) -> str:
    expert, offline, _ = recordings
    shown, logged = _counted(expert, "demonstration"), _counted(offline, "logged episode")
    return f"learned from {shown} and {logged}"


def _counted(episodes: Episodes, noun: str) -> str:
    return f"{plural(len(episodes), noun)} ({plural(episodes.steps, 'step')})"


def _spread(last: Sequence[Row]) -> str:
    found = [row["effective_share"] for row in last if "effective_share" in row]
    return f"weights spread over {np.mean(found):.0%} of the logs" if found else ""


def _heaviest(fleet: Fleet, recordings: Recordings, folder: RunFolder) -> str:
    """Say how many of the heaviest episodes never come near the end of the demonstrations.

    Nothing is said of logs on the disk: only the episodes in memory could be weighed.
    """
    weighs, data = isinstance(fleet.members[0].algorithm, Weighing), fleet.datas[0]
    if not weighs or data.blocks is not None or data.offline.size > MOST_ROWS:
        return ""
    shares, _ = episode_shares(folder, fleet, len(recordings.offline))
    order = np.argsort(-shares, kind="stable")
    half = int(np.searchsorted(np.cumsum(shares[order]), shares.sum() / 2)) + 1
    heavy = order[: min(half, HEAVIEST)]
    missed = never_near_an_end(recordings.expert, recordings.offline, heavy)
    if not missed:
        return ""
    return f"{missed} of the {len(heavy)} heaviest episodes never come near the demonstrated end"


def episode_shares(folder: RunFolder, fleet: Fleet, episodes: int) -> tuple[Shares, int]:
    """The mean weight of each logged episode at the last checkpoint, and the number of runs in it.

    Runs that failed do not count.
    """
    checkpoint = folder.read_checkpoint(jax.eval_shape(fleet.begin))
    if checkpoint is None:
        raise LobsDICEError("there is no checkpoint to take the networks from")
    found = []
    for i, member in enumerate(fleet.members):
        if i in checkpoint.failures:
            continue
        nets = jax.tree.map(lambda x, i=i: x[i], checkpoint.state.nets)
        data = fleet.datas[member.data]
        found.append(episode_weights(row_weights(member.algorithm, nets, data), data, episodes))
    if not found:
        raise LobsDICEError("every run has failed")
    return np.mean(found, axis=0), len(found)


def _judged(data: Data, rows: Sequence[Row], last: Sequence[Row]) -> tuple[str, bool]:
    """Compare the error at demonstrated states with that of the best constant action."""
    error, constant = float(np.mean([row[CRITERION] for row in last])), error_of_constant(data)
    if constant < TRIVIAL:
        return "", False
    numbers = f"{error:.2g} against {constant:.2g}"
    if error >= constant:
        return (
            "by offline measures it FAILED: at demonstrated states its actions are no nearer to "
            f"those of the logs than one constant action (error {numbers})"
        ), True
    runs = {row["run"] for row in last}
    least = np.mean([min(r[CRITERION] for r in rows if r["run"] == run) for run in runs])
    hint = "; an earlier policy was better: --which selected" if error > WORSE * least else ""
    return f"no failure by offline measures (error {numbers} of a constant action{hint})", False


def error_of_constant(data: Data) -> float:
    """The error at demonstrated states of the best constant action; see `demonstration_error`."""
    every = -(-data.offline.size // MOST_ROWS)
    actions = np.asarray(infer_actions(data, every).a)
    return constant_error(actions, discrete=isinstance(data.action_space, Discrete))
