"""Training as users call it: an algorithm and data in, runs with their policies out."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lobsdice.algorithms import ALGORITHMS
from lobsdice.algorithms.base import Algorithm
from lobsdice.console import progress, say
from lobsdice.data.display import html_of, listed, text_of
from lobsdice.data.prepare import Data
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import Policy
from lobsdice.training.callbacks import Callback, StopTraining
from lobsdice.training.engine import Options
from lobsdice.training.evaluation import evaluation_of
from lobsdice.training.fleet import Fleet, default_every, iterate, learn, make_fleet
from lobsdice.training.folder import RunFolder
from lobsdice.training.interrupts import interruptible
from lobsdice.training.lock import locked
from lobsdice.training.loggers import LiveTable, Logger, Pace, Row
from lobsdice.training.programs import keep_programs
from lobsdice.training.recorder import Evaluate, Recorder
from lobsdice.training.scores import kept_scores
from lobsdice.training.select import CRITERION

#: How JAX says that memory is exhausted.
OUT_OF_MEMORY = re.compile("RESOURCE_EXHAUSTED|out of memory", re.IGNORECASE)
#: The parameters of `train` that are no options.
TRAINED = ("algorithm", "data", "options")
#: What users of other libraries call some options.
SYNONYMS = {
    **dict.fromkeys(("env", "environment", "eval_env"), "evaluate"),
    **dict.fromkeys(("seed", "random_state"), "seeds"),
    **dict.fromkeys(("output", "folder", "path", "save_dir"), "out"),
    **dict.fromkeys(("epochs", "n_steps", "iterations"), "steps"),
    **dict.fromkeys(("obs_columns", "state_columns"), "observation_columns"),
}


@dataclass(frozen=True, repr=False)
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
    stopped: str | None = None
    """Why a callback stopped the training; None if it went on to the last step."""

    def __repr__(self) -> str:
        return text_of("Run", self._facts())

    def _repr_html_(self) -> str:
        return html_of("Run", self._facts())

    def _facts(self) -> dict[str, str]:
        members = self.fleet.members
        algorithms = dict.fromkeys(type(member.algorithm).__name__ for member in members)
        last = self.rows[-1]["step"] if self.rows else 0
        final = [row for row in self.rows if row["step"] == last]
        facts = {
            "algorithm": listed(list(algorithms)),
            "runs": f"{len(members)}, seeds {listed([member.seed for member in members])}",
            "steps": f"{last:,} of {self.fleet.steps:,}",
        }
        for name in ("return", "score", CRITERION):
            if values := [row[name] for row in final if name in row]:
                facts[name] = f"{np.mean(values):.4g}"
        facts |= {"failures": listed(list(self.failures.values()))} if self.failures else {}
        facts |= {"stopped": self.stopped} if self.stopped else {}
        return facts | {"use": ".policy(observation), .policies, .best, .selected, .table()"}

    def table(self) -> list[Row]:
        """Tidy rows: step, run, seed, losses, measures and, if evaluated, returns."""
        return self.rows

    @property
    def policy(self) -> Policy:
        """The last policy of the first run."""
        return self.policies[0]


def train(
    algorithm: Algorithm | str | Sequence[Algorithm | str],
    data: Data | Sequence[Data],
    *,
    seeds: int | Sequence[int] = 1,
    steps: int = 1_000_000,
    every: int | None = None,
    evaluate: Any = None,
    out: str | Path | None = None,
    resume: bool = False,
    loggers: Logger | Sequence[Logger] = (),
    callbacks: Callback | Sequence[Callback] = (),
    devices: int | None = None,
    **options: Any,
) -> Run:
    """Train one run for each algorithm, dataset and seed, all in one program.

    An algorithm is one such as `LobsDICE()`, or its name. With `evaluate` the policies are scored
    every `every` steps (default: about 50 times in all) while training goes on. It is a function of
    policies (such as a task's), which is tried before training starts; or an environment, a
    function that makes one, or its name. With `out` everything is written to that folder, and
    `resume` continues an interrupted training there. `loggers` are called with the rows of each
    evaluation, and `callbacks` with a `Moment`: they may add metrics, and stop. Both may be a
    single function. The runs are divided among `devices` devices (default: all of this host).
    `options` are those of `Options`.
    """
    refuse_unknown(options, OPTIONS, algorithm)
    fleet = make_fleet(algorithm, data, seeds, Options(steps=steps, **options))
    return train_fleet(
        fleet,
        every=every,
        evaluate=evaluation_of(evaluate, fleet),
        out=out,
        resume=resume,
        loggers=several("loggers", loggers),
        callbacks=several("callbacks", callbacks),
        devices=devices,
    )


def several(name: str, given: Any) -> tuple[Any, ...]:
    """One function or several as a tuple."""
    found = (given,) if callable(given) else tuple(given) if isinstance(given, Iterable) else None
    if found is None or not all(map(callable, found)):
        raise LobsDICEError(
            f"`{name}` is a value of type {type(given).__name__}; it must be a function, or a "
            "list of functions"
        )
    return found


#: The names of the options of `train`.
OPTIONS = (
    *(name for name in inspect.signature(train).parameters if name not in TRAINED),
    *(field.name for field in fields(Options) if field.name != "steps"),
)


def refuse_unknown(options: Mapping[str, Any], known: Sequence[str], algorithm: Any) -> None:
    """Raise an error that names the closest option, if there is none of a name."""
    for name in options:
        if name not in known:
            hint = _hint(name, known, algorithm)
            raise LobsDICEError(f"training has no option {name!r}; {hint}")


def _hint(name: str, known: Sequence[str], algorithm: Any) -> str:
    """A guess at what was meant: a hyperparameter, an option of another name, or any of all."""
    kinds = [type(algorithm), *ALGORITHMS.values()]
    if kind := next((kind for kind in kinds if name in hyperparameters_of(kind)), None):
        return f"it belongs to the algorithm: ld.{kind.__name__}({name}=...)"
    if (usual := SYNONYMS.get(name)) in known:
        return f"did you mean {usual!r}?"
    if close := get_close_matches(name, known, n=1):
        return f"did you mean {close[0]!r}?"
    return (
        f"there are: {', '.join(known)}; hyperparameters belong to the algorithm: "
        "ld.LobsDICE(alpha=...)"
    )


def hyperparameters_of(kind: Any) -> list[str]:
    """The names of an algorithm's hyperparameters."""
    return [field.name for field in fields(kind)] if is_dataclass(kind) else []


def train_fleet(
    fleet: Fleet,
    *,
    every: int | None = None,
    evaluate: Evaluate | None = None,
    evaluate_at: Callable[[int], Evaluate] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    loggers: Sequence[Logger] = (),
    callbacks: Sequence[Callback] = (),
    about: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    devices: int | None = None,
) -> Run:
    """Train any fleet, as `train` does; `about` is kept in the folder's config.json.

    `evaluate_at` gives the function `evaluate` of a step, if it differs from step to step.
    `evaluation` has the settings of these, which a resumed training must share.
    """
    keep_programs()
    every = default_every(fleet) if every is None else every
    if every < 1:
        raise LobsDICEError(f"`every` is {every}; it must be at least 1")
    run = configuration(fleet, every, evaluation)
    with interruptible() as check, locked(Path(out)) if out is not None else nullcontext():
        folder = None
        if out is not None:
            folder = RunFolder(Path(out)).begin(run, about or {}, resume=resume)
            scores = kept_scores(folder.path, fleet.members, fleet.datas, learn)
            fleet = replace(fleet, found=scores)
        table = LiveTable()
        recorder = Recorder(fleet, folder, [table, *loggers], callbacks)
        with sentence_without_memory(), suppress(StopTraining):
            _train(recorder, table, every, evaluate_at or (lambda step: evaluate), check, devices)
        if table.latest:
            say(table.latest)
        last, best, selected = map(recorder.all_policies, ("last", "best", "selected"))
    return Run(fleet, recorder.rows, last, best, selected, recorder.failures, recorder.stopped)


def configuration(fleet: Fleet, every: int, evaluation: Mapping[str, Any] | None) -> dict[str, Any]:
    """All that a resumed training must share, as config.json holds it."""
    return fleet.config() | {"every": every} | ({"evaluation": evaluation} if evaluation else {})


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
    table: LiveTable,
    every: int,
    evaluate_at: Callable[[int], Evaluate | None],
    check: Callable[[], None],
    devices: int | None,
) -> None:
    """Train to the end; `check` raises KeyboardInterrupt if training is to stop."""
    fleet, begin = recorder.fleet, recorder.begin()
    diagnosis = fleet.diagnosis()
    with progress("Training", fleet.steps) as advance:
        pace = Pace(advance, fleet.steps - begin[0], table)
        pace.begin(begin[0])

        def on_steps(steps: int) -> None:
            check()
            pace(steps)
            recorder.settle(wait=False)

        options = {"every": every, "begin": begin, "on_steps": on_steps, "devices": devices}
        for now in iterate(fleet, **options):
            recorder.settle(wait=True)
            recorder.take(now, diagnosis(now.state), evaluate_at(now.step))
        recorder.settle(wait=True)
