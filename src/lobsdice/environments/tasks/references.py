"""The reference returns of scores: those of the expert (100) and of random actions (0).

They are measured over episodes of `collect`, so with the behaviour policies of the tasks' data, and
kept in `references.json` beside this file:

    python -m lobsdice.environments.tasks.references --episodes 200 --seed 1000

With `--tasks ant ant-noisy`, only these are measured, and the others keep what they have. It also
prints how many episodes terminated, which for the MuJoCo tasks are falls. The four MuJoCo tasks and
their noisy versions take about five minutes of one core.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from lobsdice.console import out
from lobsdice.data.episodes import Episodes
from lobsdice.data.files import atomic
from lobsdice.environments.gym import versions
from lobsdice.environments.tasks.collect import collect
from lobsdice.environments.tasks.table import BUILT_IN, REFERENCES, spec_of
from lobsdice.errors import LobsDICEError

MEASURED = ("expert", "random")


def measure(
    *,
    tasks: tuple[str, ...] = tuple(BUILT_IN),
    episodes: int = 200,
    seed: int = 1000,
    workers: int | None = None,
    path: Path = REFERENCES,
) -> None:
    """Measure the reference returns of tasks and write them to a file.

    The default seed differs from that of the data, so the episodes are independent of it.
    """
    if episodes < 2:
        raise LobsDICEError(f"a standard error needs at least 2 episodes, not {episodes}")
    counts = {source: episodes for source in MEASURED}
    used = {name: found for task in tasks for name, found in versions(spec_of(task)).items()}
    record = _kept(path, seed, used)
    for task in tasks:
        collected = collect(task, counts, seed=seed, workers=workers)
        rows = {source: _summary(collected[source]) for source in MEASURED}
        record["returns"][task] = rows
        for source, row in rows.items():
            ended = collected[source].terminated.mean()
            said = f"{row['mean']:.4g} ± {row['standard_error']:.2g}, {ended:.1%} terminated"
            out.print(f"{task} {source}: {said}")
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(record, indent=2) + "\n")


def _kept(path: Path, seed: int, used: dict[str, str]) -> dict[str, Any]:
    """The record in the file; an empty one if its seed or its versions are others."""
    new = {"seed": seed, "versions": used, "returns": {}}
    if not path.exists():
        return new
    kept = json.loads(path.read_text())
    if kept["seed"] != seed or kept["versions"] | used != used | kept["versions"]:
        return new
    return kept | {"versions": kept["versions"] | used}


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
