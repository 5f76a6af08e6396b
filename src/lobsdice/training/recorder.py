"""The record of training: rows, policies and checkpoints, in memory and in the run folder."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from lobsdice.console import say, warn
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import Policy, load_policy, policy_name
from lobsdice.training.callbacks import Callback, Moment, StopTraining, called
from lobsdice.training.checkpoint import METRICS, Checkpoint
from lobsdice.training.engine import State
from lobsdice.training.fleet import Fleet, Means, Progress, in_background
from lobsdice.training.folder import RunFolder
from lobsdice.training.loggers import Logger, Row
from lobsdice.training.select import badness

#: A function from the policies of all runs to the scores of each: `return` and other numbers.
Evaluate = Callable[[Sequence[Policy]], Sequence[Mapping[str, float]]]


class Pending(NamedTuple):
    """The outcome of a chunk. Its evaluation may still run in the background during training."""

    now: Progress
    measures: Means
    """The measures on held-out rows."""
    policies: dict[int, Policy]
    """The policies of the runs that have not failed."""
    scores: "Future[Sequence[Mapping[str, float]]] | None"


@dataclass
class Recorder:
    """Collects the results of a fleet, in memory and in its folder."""

    fleet: Fleet
    folder: RunFolder | None
    loggers: Sequence[Logger]
    callbacks: Sequence[Callback] = ()
    rows: list[Row] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)
    policies: dict[tuple[str, int], Policy] = field(default_factory=dict)
    """The `last`, `best` and `selected` policy of each run, as far as this process knows them."""
    files: dict[str, bytes] = field(default_factory=dict)
    """The contents of metrics.csv and of the policies, of which checkpoints have copies."""
    pending: Pending | None = None
    stopped: str | None = None
    """Why a callback stopped the training."""

    def begin(self) -> tuple[int, State]:
        """The step and state to start from: those of the folder's checkpoint, if there is one."""
        found = self.folder and self.folder.restore(jax.eval_shape(self.fleet.begin))
        if not self.folder or not found:
            return 0, self.fleet.begin()
        if not 0 <= found.step <= self.fleet.steps:
            raise LobsDICEError(
                f"{self.folder.path} has a checkpoint of step {found.step}, "
                f"but its runs have {self.fleet.steps} steps"
            )
        self.rows.extend(self.folder.rows())
        self.failures.update(found.failures)
        self.files.update(found.files)
        return found.step, found.state

    def take(self, now: Progress, measures: Means, evaluate: Evaluate | None) -> None:
        """Start to record the outcome of a chunk; `settle` completes it."""
        for i, message in self.fleet.failures(now).items():
            if i not in self.failures:
                self.failures[i] = message
                warn(message)
        every = self.fleet.policies(now.state)
        policies = {i: policy for i, policy in enumerate(every) if i not in self.failures}
        if not policies:  # the last checkpoint stays: it is the last good one
            raise LobsDICEError(self.failures[0])
        # Of failed runs too, because an evaluation may tell runs apart by their place.
        scores = evaluate and in_background(evaluate, every)
        now = now._replace(state=jax.device_get(now.state))
        self.pending = Pending(now, measures, policies, scores)

    def settle(self, *, wait: bool) -> None:
        """Record the pending outcome if its evaluation is done; with `wait`, wait for that."""
        pending = self.pending
        if pending and (wait or pending.scores is None or pending.scores.done()):
            self._record(pending)
            self.pending = None
            if self.stopped is not None:
                say(f"training stopped at step {pending.now.step}: {self.stopped}")
                raise StopTraining(self.stopped)

    def _record(self, pending: Pending) -> None:
        """Write everything; the checkpoint comes last, as the process may be killed anywhere."""
        now, _, policies, scores = pending
        results = scores.result() if scores else [{}] * len(self.fleet.members)
        rows = tuple(self._row(pending, run, results[run]) for run in policies)
        moment = Moment(now.step, rows, policies, tuple(self.rows))
        rows, self.stopped = called(self.callbacks, moment)
        for row in rows:
            self._keep_policy(row, policies[row["run"]])
        self.rows.extend(rows)
        for log in self.loggers:
            log(rows)
        if self.folder:
            self.files[METRICS] = self.folder.write_rows(self.rows)
            checkpoint = Checkpoint(now.step, now.state, self.failures, self.files)
            self.folder.write_checkpoint(checkpoint)

    def _row(self, pending: Pending, run: int, scores: Mapping[str, Any]) -> Row:
        """The row of a run: what identifies it, its scores, its losses and its measures."""
        row: Row = {"step": pending.now.step, "run": run, "seed": self.fleet.members[run].seed}
        row |= scores
        for found in (pending.now.metrics, pending.measures):
            row |= {name: float(values[run]) for name, values in sorted(found.items())}
        return row

    def _keep_policy(self, row: Row, policy: Policy) -> None:
        """Keep the policy of a row as the last one and, if it is better, as the others."""
        run = row["run"]
        if "return" in row and row["return"] >= self._best_return(run):
            self._keep("best", run, policy)
        if np.inf > badness(row) <= self._least_badness(run):
            self._keep("selected", run, policy)
        self._keep("last", run, policy)

    def all_policies(self, which: str) -> list[Policy]:
        """The `last`, `best` or `selected` policy of each run, or else its last one."""
        runs = range(len(self.fleet.members))
        last = {i: policy for i in runs if (policy := self._kept("last", i))}
        if len(last) < len(runs):  # some failed before their first evaluation
            last = dict(enumerate(self.fleet.policies(self.fleet.begin()))) | last
        return [self._kept(which, i) or last[i] for i in runs]

    def _best_return(self, run: int) -> float:
        returns = [row["return"] for row in self.rows if row["run"] == run and "return" in row]
        return float(np.nanmax([-np.inf, *returns]))

    def _least_badness(self, run: int) -> float:
        return min((badness(row) for row in self.rows if row["run"] == run), default=np.inf)

    def _keep(self, which: str, run: int, policy: Policy) -> None:
        self.policies[which, run] = policy
        if self.folder:
            name = policy_name(which, run)
            self.files[name] = self.folder.write_policy(which, run, policy)

    def _kept(self, which: str, run: int) -> Policy | None:
        """The policy of this process or, if it has none, of an earlier one."""
        if self.folder and (which, run) not in self.policies:
            path = self.folder.policy_path(which, run)
            return load_policy(path) if path.exists() else None
        return self.policies.get((which, run))
