"""Scores that are learned: the logits of a discriminator, trained before the runs of a fleet.

In two stages, as TAILO has it (Yan et al., NeurIPS 2023): the first takes the logs for a mixture
that has something of the expert in it. The episodes with the highest mean logit are then left out,
and a second discriminator tells the demonstrations from the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32

from lobsdice.algorithms.stage import Stage
from lobsdice.console import progress
from lobsdice.data.prepare import Data
from lobsdice.data.steps import Observations, Steps, store
from lobsdice.equations.ratio import calibration
from lobsdice.rewards.kinds import Ratio
from lobsdice.rewards.scores import Scores, beyond, ended_of, episodes_of
from lobsdice.training.draws import PERIOD, held_out_rows
from lobsdice.training.engine import Member, Options, State

#: The share of all steps in the first stage: 10,000 of 50,000 in TAILO.
FIRST = 0.2
#: Episodes whose mean logit is below this quantile are the negatives of the second stage.
NEGATIVE = 0.8
#: Rows of each kind in a batch, and rows that pass through a network at once. TAILO has the first
#: for demonstrations of as many states, and smaller batches for fewer. Rows are drawn with
#: repetition, so that such batches would only be noisier.
BATCH, PIECE = 512, 2**15

#: The optional fields of `Data` with one entry for each logged step.
BY_ROW = ("episode", "ended", "rewards")

Logits = Float32[np.ndarray, " n"]
#: A function that trains a fleet of discriminators, and tells the number of steps as it goes.
Fit = Callable[[Sequence[Member], Sequence[Data], Callable[[int], None]], State]


def learn_ratios(
    kind: Ratio, seeds: Sequence[int], which: Sequence[int], datas: Sequence[Data], fit: Fit
) -> list[Scores]:
    """The scores of each seed and its dataset (the numbers `which`), trained side by side."""
    first = round(FIRST * kind.steps) if kind.unlabelled else 0
    stage = Stage(on_pairs=kind.pairs, width=kind.width)
    mine = [datas[i] for i in which]
    with progress("Discriminators", kind.steps) as advance:
        if first:
            mixed = replace(stage, unlabelled=True)
            state = fit(_members(mixed, seeds, which, first), datas, advance)
            logits = [_at(stage, state, i, data.offline) for i, data in enumerate(mine)]
            datas, which = list(map(negatives, mine, logits)), range(len(mine))
        members = _members(stage, seeds, which, kind.steps - first, hold_out=kind.calibrated)
        state = fit(members, datas, advance)
    found = [_scores(stage, state, i, data) for i, data in enumerate(mine)]
    if not kind.calibrated:
        return found
    lines = [_line(stage, state, i, datas[number]) for i, number in enumerate(which)]
    return [
        Scores(a * x.steps + b, a * x.beyond + b) for x, (a, b) in zip(found, lines, strict=True)
    ]


def negatives(data: Data, logits: Logits) -> Data:
    """The data without the logged episodes that look most like the expert's."""
    _, episode = np.unique(episodes_of(data), return_inverse=True)
    mean = np.bincount(episode, logits) / np.bincount(episode)
    low = mean < np.quantile(mean, NEGATIVE)
    # One episode is not below itself; then all are negatives.
    kept = low[episode] if low.any() else np.ones(len(episode), bool)
    return replace(
        data,
        offline=data.offline._replace(row=data.offline.row[kept], a=data.offline.a[kept]),
        ahead=None,
        **{name: _some(getattr(data, name), kept) for name in ("source", *BY_ROW)},
    )


def _some(rows: np.ndarray | None, kept: np.ndarray) -> Any:
    return None if rows is None else rows[kept]


def _members(
    stage: Stage, seeds: Sequence[int], which: Sequence[int], steps: int, hold_out: bool = False
) -> list[Member]:
    options = Options(steps=steps, batch_size=BATCH, hold_out=hold_out)
    return [Member(stage, seed, i, options) for seed, i in zip(seeds, which, strict=True)]


def _scores(stage: Stage, state: State, run: int, data: Data) -> Scores:
    steps = _at(stage, state, run, data.offline)
    final = data.offline.take(np.flatnonzero(ended_of(data))).s_next
    ends = _at(stage, state, run, store(Observations(final, final)))
    return Scores(steps, beyond(steps, ends, data))


def _line(stage: Stage, state: State, run: int, data: Data) -> tuple[np.float32, np.float32]:
    """The slope and the bias that fit the logits of held-out rows best.

    They are 1 and 0 if demonstrations or logs are too few to hold rows out.
    """
    parts = (data.expert, data.offline)
    if min(part.size for part in parts) < PERIOD:
        return np.float32(1), np.float32(0)
    rows = (part.take(held_out_rows(part.size)) for part in parts)
    stored = (store(Observations(x.s, x.s_next)) for x in rows)
    slope, bias = calibration(*(jnp.asarray(_at(stage, state, run, x)) for x in stored))
    return np.float32(slope), np.float32(bias)


def _at(stage: Stage, state: State, run: int, rows: Steps) -> Logits:
    """The logits of a run's discriminator at all steps."""
    net = jax.tree.map(lambda x: x[run], state.nets.policy)
    pieces = (rows.take(np.arange(rows.size)[i : i + PIECE]) for i in range(0, rows.size, PIECE))
    found = [
        np.asarray(_apply(stage, net, Observations(piece.s, piece.s_next)), np.float32)
        for piece in pieces
    ]
    return np.concatenate([np.zeros(0, np.float32), *found])


@jax.jit
def _apply(stage: Stage, net: Any, rows: Observations) -> Any:
    return net(stage.seen(jax.tree.map(jnp.asarray, rows)))
