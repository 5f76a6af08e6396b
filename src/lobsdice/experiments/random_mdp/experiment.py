"""Figures 1 and 4 of the paper: learning from observation in random MDPs.

For each seed a random MDP at every β, data of an expert without actions and of the uniform policy
with them, and every learner on every amount of either. A learner is judged by the total variation
between the true distributions of state pairs of its policy and of the expert.
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
from lobsdice.experiments import plots
from lobsdice.experiments.random_mdp import storage
from lobsdice.experiments.random_mdp.estimates import problems
from lobsdice.experiments.random_mdp.learners import curves, run
from lobsdice.experiments.random_mdp.settings import Protocol
from lobsdice.experiments.random_mdp.storage import Block

#: Seeds of a block: what an interruption can lose.
BLOCK = 16
TABLE = "random_mdp.csv"


def experiment(
    protocol: Protocol, seeds: int, folder: Path, *, workers: int | None = None
) -> list[Path]:
    """Run what is missing of the first `seeds` seeds, then write the table and its figures."""
    if seeds < 2:
        raise LobsDICEError(f"a standard error needs at least two seeds, but there are {seeds}")
    storage.claim(folder, protocol.describe())
    todo = storage.missing(folder, seeds)
    cells = len(protocol.betas)
    with console.progress("Random MDPs", seeds * cells) as advance:
        advance((seeds - len(todo)) * cells)
        for block in solve_blocks(protocol, todo, workers or cores()):
            storage.save(folder, block)
            advance(len(block.seeds) * cells)
    results = storage.load(folder, seeds)
    assert results is not None
    path = write_csv(folder / TABLE, table(protocol, results))
    return [path, *plots.save_random_mdp(path, folder)]


def solve_blocks(protocol: Protocol, seeds: list[int], workers: int) -> Iterator[Block]:
    """Results of blocks of seeds, as they get done."""
    parts = [seeds[i : i + BLOCK] for i in range(0, len(seeds), BLOCK)]
    work = partial(solve_block, protocol)
    for _, block in as_completed(work, parts, min(workers, len(parts)) or 1):
        yield block


def solve_block(protocol: Protocol, seeds: list[int]) -> Block:
    """Every learner on every cell of some seeds."""
    lines = curves(protocol)
    by_beta = []
    for beta in protocol.betas:
        data = problems(seeds, beta, protocol)
        outcomes = [run(curve, data) for curve in lines]
        by_beta.append(
            (
                np.stack([outcome.total_variation for outcome in outcomes], axis=-1),
                np.stack([outcome.failed for outcome in outcomes], axis=-1),
                outcomes[-1].unsupported,
            )
        )
    stacked = (np.stack(parts, axis=1) for parts in zip(*by_beta, strict=True))
    return Block(np.array(seeds), *stacked)


def table(protocol: Protocol, results: Block) -> list[dict[str, Any]]:
    """A row for each cell and curve: mean and standard error over the seeds."""
    tv = results.total_variation
    mean, error = tv.mean(0), tv.std(0, ddof=1) / np.sqrt(len(tv))
    failures, unsupported = results.failed.sum(0), results.unsupported.mean(0)
    lines = curves(protocol)
    return [
        {
            "beta": protocol.betas[b],
            "n_expert": protocol.experts[e],
            "n_offline": protocol.offlines[o],
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
