"""Training as users call it: from an algorithm and data to a run with its policies.

`iterate` is the bare loop, for those who log in their own way; `train` adds evaluation, a folder
that survives interruption, and a progress bar.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Float64

from lobsdice.algorithms.base import Algorithm, Metrics
from lobsdice.console import progress, say
from lobsdice.data.prepare import Data
from lobsdice.data.spaces import ActionSpace
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import Policy, load_policy, to_json
from lobsdice.training.diagnostics import diagnose, hold_out
from lobsdice.training.engine import Member, Options, State, pack, run_chunk, start, suspects
from lobsdice.training.folder import Checkpoint, RunFolder, describe, fingerprint
from lobsdice.training.loggers import LiveTable, Logger, Pace, Row
from lobsdice.training.select import CRITERION

#: From the policies of all runs to what to note about each of them: `return`, and whatever else.
Evaluate = Callable[[Sequence[Policy]], Sequence[Mapping[str, float]]]

#: Steps between two glances at the progress bar, or so.
PIECE = 1000
#: A run is evaluated this often unless told otherwise.
EVALUATIONS = 50


Means = dict[str, Float64[np.ndarray, " runs"] | Float32[np.ndarray, " runs"]]


class Progress(NamedTuple):
    """Where a fleet stands after a chunk of steps; arrays have one entry a run."""

    step: int
    state: State
    metrics: Means


@dataclass(frozen=True)
class Fleet:
    """Runs that train in one program, and the data sets that they index."""

    members: tuple[Member, ...]
    datas: tuple[Data, ...]

    def __post_init__(self):
        if not self.members:
            raise LobsDICEError("there is nothing to train: the fleet has no runs")
        for member in self.members:
            _check_member(member)
        first = self.datas[0]
        for data in self.datas:
            if (data.state_size, data.action_space) != (first.state_size, first.action_space):
                raise LobsDICEError("the data sets of a fleet must agree in states and actions")
            if (data.labelled is None) != (first.labelled is None):
                raise LobsDICEError("all data sets of a fleet must have labels, or none")
        for member in self.members:
            if member.algorithm.needs_labels and self.datas[member.data].labelled is None:
                raise LobsDICEError(
                    f"{type(member.algorithm).__name__} learns from demonstrations with actions, "
                    "of which the data has none: give them to `prepare` as `labelled`"
                )
        if len({jax.tree.structure((m.algorithm, m.options)) for m in self.members}) > 1:
            raise LobsDICEError(
                "the runs of a fleet may differ in seed, data and real-valued hyperparameters, "
                "not in the algorithm, in whole numbers or in switches"
            )

    @property
    def steps(self) -> int:
        """Gradient steps of each run."""
        return self.members[0].options.steps

    @property
    def block(self) -> int:
        """Steps from one penalised step to the next, but for a shorter block at a chunk's end."""
        return self.members[0].algorithm.penalty_every

    def config(self) -> dict[str, Any]:
        """All that determines the outcome."""
        return {
            "runs": [
                {
                    "algorithm": describe(m.algorithm),
                    "options": describe(m.options),
                    "seed": m.seed,
                    "data": m.data,
                }
                for m in self.members
            ],
            "data": [
                {"fingerprint": fingerprint(d), "action_space": to_json(d.action_space)}
                for d in self.datas
            ],
        }

    def keys(self) -> jax.Array:
        """The source of all randomness of each run."""
        return jax.vmap(jax.random.key)(jnp.array([m.seed for m in self.members], jnp.uint32))

    def begin(self) -> State:
        """The state of all runs before the first step."""
        algorithms, data = _stack([m.algorithm for m in self.members]), self.datas[0]
        return _begin(algorithms, self.keys(), data.state_size, data.action_space)

    def policies(self, state: State) -> list[Policy]:
        """The averaged policy of each run."""
        nets = jax.device_get(state.average)
        return [
            Policy(
                weights=tuple(np.asarray(w[i], np.float32) for w in nets.net.weights),
                biases=tuple(np.asarray(b[i], np.float32) for b in nets.net.biases),
                normaliser=self.datas[member.data].normaliser,
                action_space=self.datas[member.data].action_space,
            )
            for i, member in enumerate(self.members)
        ]

    def diagnosis(self) -> Callable[[State], Means]:
        """From the state of all runs to what rows that are held out tell of each."""
        apart = self.members[0].options.hold_out
        held, names = hold_out(self.datas, apart=apart)
        algorithms, keys = _stack([m.algorithm for m in self.members]), self.keys()
        which = jnp.array([m.data for m in self.members])

        def measure(state: State) -> Means:
            return jax.device_get(diagnose(algorithms, state, keys, held, which, names=names))

        return measure

    def failures(self, now: "Progress") -> dict[int, str]:
        """For each run that has stopped, when and why."""
        failed_at, failed_in = jax.device_get((now.state.failed_at, now.state.failed_in))
        names = suspects(now.metrics)
        found = {}
        for i in np.flatnonzero(failed_at >= 0).tolist():
            what = ", ".join(name for j, name in enumerate(names) if failed_in[i] >> j & 1)
            found[i] = (
                f"run {i} (seed {self.members[i].seed}) stopped at step {failed_at[i]}, where "
                f"numbers ceased to be finite: {what}; try smaller learning rates or a larger alpha"
            )
        return found


def iterate(
    fleet: Fleet,
    *,
    every: int,
    begin: tuple[int, State] | None = None,
    on_steps: Callable[[int], None] = lambda steps: None,
) -> Iterator[Progress]:
    """Train, and yield every `every` steps; `on_steps` hears of smaller pieces of work."""
    pool, slices = pack(fleet.datas)
    which = jnp.array([m.data for m in fleet.members])
    slices = jax.tree.map(lambda x: x[which], slices)
    algorithms, options = _stack([(m.algorithm, m.options) for m in fleet.members])
    keys = fleet.keys()
    step, state = begin or (0, fleet.begin())
    while step < fleet.steps:
        parts = []
        pieces = split(min(every, fleet.steps - step), fleet.block)
        for piece in pieces:
            state, metrics = run_chunk(
                algorithms, options, state, pool, slices, keys, jnp.int32(step), steps=piece
            )
            _wait(state.failed_at)
            parts.append(metrics)
            step += piece
            on_steps(piece)
            if (np.asarray(state.failed_at) >= 0).all():  # what is still to come changes nothing
                break
        yield Progress(step, state, _means(parts, pieces[: len(parts)]))


@dataclass(frozen=True)
class Run:
    """What training leaves behind."""

    fleet: Fleet
    rows: list[Row]
    policies: list[Policy]
    """The last policy of each run; of one that stopped early, the last before that."""
    best: list[Policy]
    """Of each run, the policy with the best mean return among all evaluations (or the last)."""
    selected: list[Policy]
    """Of each run, the policy with the least error on the demonstrations; see `select`."""
    failures: dict[int, str]
    """For each run that stopped early, why."""

    def table(self) -> list[Row]:
        """Tidy rows: step, run, seed, losses, measures and, where evaluated, returns."""
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
    """Train one run for each algorithm, data set and seed, all of them in one program.

    With `evaluate` (such as a task's) the policies are scored every `every` steps (default: about
    50 times in all) while training goes on. With `out` everything is written to that folder, and
    an interrupted run goes on with `resume`. `loggers` are called with the rows of each evaluation.
    `options` are those of `Options`.
    """
    fleet = Fleet(*_members(algorithm, data, seeds, Options(steps=steps, **options)))
    return train_fleet(
        fleet, every=every, evaluate=evaluate, out=out, resume=resume, loggers=loggers
    )


def train_fleet(
    fleet: Fleet,
    *,
    every: int | None = None,
    evaluate: Evaluate | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    loggers: Sequence[Logger] = (),
    about: Mapping[str, Any] | None = None,
) -> Run:
    """Like `train`, for any fleet; `about` is kept in the folder's config.json."""
    every = default_every(fleet) if every is None else every
    if every < 1:
        raise LobsDICEError(f"every is {every}; it must be at least 1")
    folder = RunFolder(Path(out)) if out is not None else None
    if folder is not None:
        folder.begin(fleet.config() | {"every": every}, about or {}, resume=resume)
    recorder = Recorder(fleet, folder, [LiveTable(), *loggers])
    begin = recorder.begin()
    diagnosis = fleet.diagnosis()
    with progress("Training", fleet.steps) as advance:
        pace = Pace(advance, fleet.steps - begin[0])
        pace.begin(begin[0])

        def on_steps(steps: int) -> None:
            pace(steps)
            recorder.settle(wait=False)

        for now in iterate(fleet, every=every, begin=begin, on_steps=on_steps):
            recorder.settle(wait=True)
            recorder.take(now, diagnosis(now.state), evaluate)
        recorder.settle(wait=True)
    return recorder.run()


class Pending(NamedTuple):
    """A chunk's outcome whose evaluation may still be under way, while training goes on."""

    now: Progress
    measures: Means
    """On rows held out."""
    policies: dict[int, Policy]
    """Of the runs that have not failed."""
    scores: "Future[Sequence[Mapping[str, float]]] | None"


@dataclass
class Recorder:
    """Collects what a run leaves, in memory and in its folder."""

    fleet: Fleet
    folder: RunFolder | None
    loggers: Sequence[Logger]
    rows: list[Row] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)
    policies: dict[tuple[str, int], Policy] = field(default_factory=dict)
    """The `last`, `best` and `selected` ones of each run, as far as this process has seen them."""
    pending: Pending | None = None

    def begin(self) -> tuple[int, State]:
        """Where to start from: the folder's checkpoint, if there is one."""
        found = self.folder and self.folder.read_checkpoint(jax.eval_shape(self.fleet.begin))
        if not self.folder or not found:
            return 0, self.fleet.begin()
        self.rows.extend(self.folder.rows(until=found.step))
        self.failures.update(found.failures)
        return found.step, found.state

    def take(self, now: Progress, measures: Means, evaluate: Evaluate | None) -> None:
        """Begin to take in a chunk's outcome; `settle` ends it."""
        for i, message in self.fleet.failures(now).items():
            if i not in self.failures:
                self.failures[i] = message
                say(f"warning: {message}")
        every = self.fleet.policies(now.state)
        policies = {i: policy for i, policy in enumerate(every) if i not in self.failures}
        if not policies:  # the last checkpoint stays: it is the last good one
            raise LobsDICEError(self.failures[0])
        # All of them, also those that stopped: an evaluation may tell runs apart by their place.
        scores = evaluate and _in_background(evaluate, every)
        now = now._replace(state=jax.device_get(now.state))
        self.pending = Pending(now, measures, policies, scores)

    def settle(self, *, wait: bool) -> None:
        """Record what is pending if its evaluation is done, or as soon as it is."""
        pending = self.pending
        if pending and (wait or pending.scores is None or pending.scores.done()):
            self._record(pending)
            self.pending = None

    def _record(self, pending: Pending) -> None:
        """The checkpoint is written last: a process may be killed anywhere in here."""
        now, measures, policies, scores = pending
        results = scores.result() if scores else [{}] * len(self.fleet.members)
        rows = []
        for i, policy in policies.items():
            result = results[i]
            if result and result["return"] >= self._best_return(i):
                self._keep("best", i, policy)
            if measures[CRITERION][i] <= self._least_error(i):
                self._keep("selected", i, policy)
            self._keep("last", i, policy)
            rows.append({"step": now.step, "run": i, "seed": self.fleet.members[i].seed, **result})
            for found in (now.metrics, measures):
                rows[-1] |= {name: float(values[i]) for name, values in sorted(found.items())}
        self.rows.extend(rows)
        for log in self.loggers:
            log(rows)
        if self.folder:
            self.folder.write_rows(self.rows)
            self.folder.write_checkpoint(Checkpoint(now.step, now.state, self.failures))

    def run(self) -> Run:
        """The finished run."""
        runs = range(len(self.fleet.members))
        last = {i: policy for i in runs if (policy := self._kept("last", i))}
        if len(last) < len(runs):  # some failed before their first evaluation
            last = dict(enumerate(self.fleet.policies(self.fleet.begin()))) | last
        best, selected = (
            [self._kept(which, i) or last[i] for i in runs] for which in ("best", "selected")
        )
        policies = [last[i] for i in runs]
        return Run(self.fleet, self.rows, policies, best, selected, self.failures)

    def _best_return(self, run: int) -> float:
        returns = [row["return"] for row in self.rows if row["run"] == run and "return" in row]
        return float(np.nanmax([-np.inf, *returns]))

    def _least_error(self, run: int) -> float:
        errors = [row[CRITERION] for row in self.rows if row["run"] == run]
        return float(np.nanmin([np.inf, *errors]))

    def _keep(self, which: str, run: int, policy: Policy) -> None:
        self.policies[which, run] = policy
        if self.folder:
            policy.save(self.folder.policy_path(which, run))

    def _kept(self, which: str, run: int) -> Policy | None:
        """The policy as this process has seen it, or else as an earlier one has left it."""
        if self.folder and (which, run) not in self.policies:
            path = self.folder.policy_path(which, run)
            return load_policy(path) if path.exists() else None
        return self.policies.get((which, run))


def default_every(fleet: Fleet) -> int:
    """About a fiftieth of all steps: whole blocks and, if possible, an equal share of all."""
    blocks = fleet.steps // fleet.block
    least = max(1, -(-blocks // EVALUATIONS))
    # Chunks of another length, such as a shorter one at the end, are another program to compile.
    size = next((n for n in range(least, 2 * least + 1) if blocks % n == 0), least)
    return size * fleet.block


def split(steps: int, block: int) -> list[int]:
    """Pieces of `PIECE` steps or so, all equal if possible: one compiled program serves them."""
    most = max(PIECE // block, 1) * block
    sizes = range(most, PIECE // 10, -block)
    size = next((n for n in sizes if steps % n == 0), min(most, steps))
    rest = [steps % size] if steps % size else []
    return [size] * (steps // size) + rest


def _members(algorithm, data, seeds, options) -> tuple[tuple[Member, ...], tuple[Data, ...]]:
    algorithms = list(algorithm) if isinstance(algorithm, Sequence) else [algorithm]
    datas = tuple(data) if isinstance(data, Sequence) else (data,)
    numbers = range(seeds) if isinstance(seeds, int) else seeds
    members = tuple(
        Member(a, seed, i, options)
        for a in algorithms
        for i in range(len(datas))
        for seed in numbers
    )
    return members, datas


@partial(jax.jit, static_argnames=("state_size", "space"))
def _begin(algorithms: Algorithm, keys: jax.Array, state_size: int, space: ActionSpace) -> State:
    return jax.vmap(lambda a, key: start(a, key, state_size, space))(algorithms, keys)


def _stack(trees: Sequence[Any]) -> Any:
    """Trees of numbers as one tree of arrays with a leading axis."""
    return jax.tree.map(lambda *xs: jnp.stack([jnp.asarray(x, jnp.float32) for x in xs]), *trees)


#: How hyperparameters end that are no less than zero in any algorithm.
NOT_NEGATIVE = ("alpha", "temperature", "tau", "floor", "_rate", "_penalty", "_weight")


def _check_member(member: Member) -> None:
    settings = describe(member.options) | describe(member.algorithm)
    numbers = {name: x for name, x in settings.items() if isinstance(x, int | float)}
    for name in ("steps", "batch_size", "width", "penalty_every"):
        if numbers.get(name, 1) < 1:
            raise LobsDICEError(f"{name} is {numbers[name]}; it must be at least 1")
    for name in ("average", "cooldown", "gamma"):
        if not 0 <= numbers.get(name, 0) <= 1:
            raise LobsDICEError(f"{name} is {numbers[name]}; it must be between 0 and 1")
    for name, value in numbers.items():
        if name.endswith(NOT_NEGATIVE) and not value >= 0:
            raise LobsDICEError(f"{name} is {value}; it must be at least 0")
    if not 0 <= member.seed < 2**32:
        raise LobsDICEError(f"a seed is {member.seed}; it must be at least 0 and below 2^32")


def _means(parts: list[Metrics], weights: list[int]) -> Means:
    return jax.tree.map(lambda *xs: np.average(xs, axis=0, weights=weights), *parts)


def _wait(array: Any) -> None:
    """Until it is computed; JAX's own waiting, in this thread, would not hear Ctrl-C."""
    _in_background(jax.block_until_ready, array).result()


def _in_background(job: Callable[[Any], Any], argument: Any) -> Future:
    """The job's outcome, from a thread that does not keep an interrupted program from ending."""
    future = Future()

    def run() -> None:
        try:
            future.set_result(job(argument))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
