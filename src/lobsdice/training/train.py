"""Training as users call it: an algorithm and data in, runs with their policies out."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from lobsdice.algorithms.base import Algorithm
from lobsdice.console import progress
from lobsdice.data.prepare import Data
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import Policy
from lobsdice.training.engine import Options
from lobsdice.training.fleet import Fleet, default_every, iterate, make_fleet
from lobsdice.training.folder import RunFolder
from lobsdice.training.interrupts import interruptible
from lobsdice.training.lock import locked
from lobsdice.training.loggers import LiveTable, Logger, Pace, Row
from lobsdice.training.recorder import Evaluate, Recorder

#: How JAX says that memory is exhausted.
OUT_OF_MEMORY = re.compile("RESOURCE_EXHAUSTED|out of memory", re.IGNORECASE)


@dataclass(frozen=True)
class Run:
    """The result of training a fleet. Lists have one entry for each of its runs."""

    fleet: Fleet
    rows: list[Row]
    policies: list[Policy]
    """The last policies; for a run that stopped early, the last good one."""
    best: list[Policy]
    """The policies with the best mean return of all evaluations; the last ones if there is none."""
    selected: list[Policy]
    """The policies with the least error on the demonstrations; see `select`."""
    failures: dict[int, str]
    """The step and the reason, for each run that stopped early."""

    def table(self) -> list[Row]:
        """Tidy rows: step, run, seed, losses, measures and, if evaluated, returns."""
        return self.rows

    @property
    def policy(self) -> Policy:
        """The last policy of the first run."""
        return self.policies[0]


def train(
    algorithm: Algorithm | Sequence[Algorithm],
    data: Data | Sequence[Data],
    *,
    seeds: int | Sequence[int] = 1,
    steps: int = 1_000_000,
    every: int | None = None,
    evaluate: Evaluate | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    loggers: Sequence[Logger] = (),
    **options: Any,
) -> Run:
    """Train one run for each algorithm, dataset and seed, all in one program.

    With `evaluate` (such as a task's) the policies are scored every `every` steps (default: about
    50 times in all) while training goes on. With `out` everything is written to that folder, and
    `resume` continues an interrupted training there. `loggers` are called with the rows of each
    evaluation. `options` are those of `Options`.
    """
    fleet = make_fleet(algorithm, data, seeds, Options(steps=steps, **options))
    return train_fleet(
        fleet, every=every, evaluate=evaluate, out=out, resume=resume, loggers=loggers
    )


def train_fleet(
    fleet: Fleet,
    *,
    every: int | None = None,
    evaluate: Evaluate | None = None,
    evaluate_at: Callable[[int], Evaluate] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    loggers: Sequence[Logger] = (),
    about: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
) -> Run:
    """Train any fleet, as `train` does; `about` is kept in the folder's config.json.

    `evaluate_at` gives the function `evaluate` of a step, if it differs from step to step.
    `evaluation` has the settings of these, which a resumed training must share.
    """
    every = default_every(fleet) if every is None else every
    if every < 1:
        raise LobsDICEError(f"every is {every}; it must be at least 1")
    run = fleet.config() | {"every": every} | ({"evaluation": evaluation} if evaluation else {})
    with interruptible() as check, locked(Path(out)) if out is not None else nullcontext():
        folder = None
        if out is not None:
            folder = RunFolder(Path(out)).begin(run, about or {}, resume=resume)
        recorder = Recorder(fleet, folder, [LiveTable(), *loggers])
        with sentence_without_memory():
            _train(recorder, every, evaluate_at or (lambda step: evaluate), check)
        last, best, selected = map(recorder.all_policies, ("last", "best", "selected"))
    return Run(fleet, recorder.rows, last, best, selected, recorder.failures)


@contextmanager
def sentence_without_memory() -> Iterator[None]:
    """Turn an error for lack of memory into a sentence."""
    try:
        yield
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or OUT_OF_MEMORY.search(str(error)):
            raise LobsDICEError(
                "there is not enough memory for this training; it needs less with a smaller "
                "`batch_size`, a smaller width or fewer seeds"
            ) from error
        raise


def _train(
    recorder: Recorder,
    every: int,
    evaluate_at: Callable[[int], Evaluate | None],
    check: Callable[[], None],
) -> None:
    """Train to the end; `check` raises KeyboardInterrupt if training is to stop."""
    fleet, begin = recorder.fleet, recorder.begin()
    diagnosis = fleet.diagnosis()
    with progress("Training", fleet.steps) as advance:
        pace = Pace(advance, fleet.steps - begin[0])
        pace.begin(begin[0])

        def on_steps(steps: int) -> None:
            check()
            pace(steps)
            recorder.settle(wait=False)

        for now in iterate(fleet, every=every, begin=begin, on_steps=on_steps):
            recorder.settle(wait=True)
            recorder.take(now, diagnosis(now.state), evaluate_at(now.step))
        recorder.settle(wait=True)
