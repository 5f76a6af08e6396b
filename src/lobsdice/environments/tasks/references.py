"""The reference returns of scores: those of the expert (100) and of random actions (0).

They are measured over episodes of `collect`, so with the behaviour policies of the tasks' data, and
kept in `references.json` beside this file:

    python -m lobsdice.environments.tasks.references --episodes 200 --seed 1000
"""

import json
from pathlib import Path

import numpy as np
import tyro

from lobsdice.console import out
from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.environments.gym import versions
from lobsdice.environments.tasks.collect import collect
from lobsdice.environments.tasks.table import REFERENCES, TASKS
from lobsdice.errors import LobsDICEError

MEASURED = ("expert", "random")


def measure(
    *, episodes: int = 200, seed: int = 1000, workers: int | None = None, path: Path = REFERENCES
) -> None:
    """Measure the reference returns of every task and write them to a file.

    The default seed differs from that of the data, so the episodes are independent of it.
    """
    if episodes < 2:
        raise LobsDICEError(f"a standard error needs at least 2 episodes, not {episodes}")
    counts = {source: episodes for source in MEASURED}
    measured = {}
    for task in TASKS:
        collected = collect(task, counts, seed=seed, workers=workers)
        measured[task] = {source: _summary(collected[source]) for source in MEASURED}
        for source, row in measured[task].items():
            out.print(f"{task} {source}: {row['mean']:.1f} ± {row['standard_error']:.1f}")
    with atomic(path) as temporary:
        record = {"seed": seed, "versions": versions(), "returns": measured}
        temporary.write_text(json.dumps(record, indent=2) + "\n")


def _summary(episodes: Episodes) -> dict[str, float | int]:
    returns = episodes.returns()
    assert returns is not None  # collected episodes have rewards
    return {
        "mean": round(float(returns.mean()), 3),
        "standard_error": round(float(returns.std(ddof=1) / np.sqrt(len(returns))), 3),
        "episodes": len(returns),
    }


if __name__ == "__main__":
    tyro.cli(measure)
