"""The returns that scores are normalised by: those of the expert's and of random episodes.

They are measured over the episodes that `collect` makes, so with the policies and the exploration
that the tasks' data has, and kept in `references.json` beside this file:

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

    The default seed is not that of the default data, so the two are independent.
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
