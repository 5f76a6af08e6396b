"""Figures 1 and 4 of the paper: learning from observation in random MDPs.

Each seed gives one random MDP for every β, with demonstrations of an expert without actions and
offline data of the uniform policy with actions. Every learner is given every amount of both. Its
error is the total variation between the true state-pair occupancies of its policy and the expert.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lobsdice import console
from lobsdice.data.files import write_csv
from lobsdice.data.machine import cores
from lobsdice.environments.workers import as_completed
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.plots.random_mdp import save_random_mdp
from lobsdice.experiments.random_mdp import storage
from lobsdice.experiments.random_mdp.estimates import problems
from lobsdice.experiments.random_mdp.learners import curves, score
from lobsdice.experiments.random_mdp.settings import Settings
from lobsdice.experiments.random_mdp.storage import Block
from lobsdice.experiments.settings import claim

#: Seeds of a block. An interruption loses at most the blocks in progress.
BLOCK = 16
TABLE = "random_mdp.csv"


def experiment(
    settings: Settings, seeds: int, folder: Path, *, workers: int | None = None
) -> list[Path]:
    """Solve those of the first `seeds` seeds that have no results; write the table and figures."""
    if seeds < 2:
        raise LobsDICEError(f"a standard error needs at least two seeds, but there are {seeds}")
    claim(folder, settings.describe())
    todo = storage.missing(folder, seeds)
    cells = len(settings.betas)
    with console.progress("Random MDPs", seeds * cells) as advance:
        advance((seeds - len(todo)) * cells)
        for block in solve_blocks(settings, todo, workers or cores()):
            storage.save(folder, block)
            advance(len(block.seeds) * cells)
    results = storage.load(folder, seeds)
    assert results is not None
    path = write_csv(folder / TABLE, table(settings, results))
    return [path, *save_random_mdp(path, folder)]


def solve_blocks(settings: Settings, seeds: list[int], workers: int) -> Iterator[Block]:
    """Yield the results of blocks of seeds as soon as they are done."""
    parts = [seeds[i : i + BLOCK] for i in range(0, len(seeds), BLOCK)]
    work = partial(solve_block, settings)
    for _, block in as_completed(work, parts, min(workers, len(parts))):
        yield block


def solve_block(settings: Settings, seeds: list[int]) -> Block:
    """The results of every learner in every cell of some seeds."""
    lines = curves(settings)
    by_beta = []
    for beta in settings.betas:
        data = problems(seeds, beta, settings)
        outcomes = [score(curve, data) for curve in lines]
        by_beta.append(
            (
                np.stack([outcome.total_variation for outcome in outcomes], axis=-1),
                np.stack([outcome.failed for outcome in outcomes], axis=-1),
                outcomes[-1].unsupported,
            )
        )
    stacked = (np.stack(parts, axis=1) for parts in zip(*by_beta, strict=True))
    return Block(np.array(seeds), *stacked)


def table(settings: Settings, results: Block) -> list[dict[str, Any]]:
    """A row for each cell and curve, with the mean and standard error over the seeds."""
    tv = results.total_variation
    mean, error = tv.mean(0), tv.std(0, ddof=1) / np.sqrt(len(tv))
    failures, unsupported = results.failed.sum(0), results.unsupported.mean(0)
    lines = curves(settings)
    return [
        {
            "beta": settings.betas[b],
            "n_expert": settings.experts[e],
            "n_offline": settings.offlines[o],
            "algorithm": lines[c].algorithm,
            "alpha": "" if lines[c].alpha is None else lines[c].alpha,
            "mean": f"{mean[b, e, o, c]:.5f}",
            "standard_error": f"{error[b, e, o, c]:.5f}",
            "seeds": len(tv),
            "unsupported_expert_mass": f"{unsupported[b, e, o]:.5f}",
            "failures": int(failures[b, e, o, c]),
        }
        for b, e, o, c in np.ndindex(*mean.shape)
    ]
