"""Training as users call it: from an algorithm and data to a run with its policies.

`iterate` is the bare loop, for those who log in their own way; `train` adds evaluation, a folder
that survives interruption, and a progress bar.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lobsdice.algorithms.base import Algorithm, Metrics
from lobsdice.console import progress, say
from lobsdice.data import Data
from lobsdice.engine import Member, Options, State, pack, run_chunk, start, suspects
from lobsdice.errors import LobsDICEError
from lobsdice.policy import Policy, load_policy, to_json
from lobsdice.runs import Row, RunFolder, describe, fingerprint

#: From policies to what to note about each of them: `return`, and whatever else.
Evaluate = Callable[[Sequence[Policy]], Sequence[Mapping[str, float]]]

#: Steps between two glances at the progress bar, at most.
PIECE = 1000


class Progress(NamedTuple):
    """Where a fleet stands after a chunk of steps; arrays have one entry a run."""

    step: int
    state: State
    metrics: Metrics


@dataclass(frozen=True)
class Fleet:
    """Runs that train in one program, and the data sets that they index."""

    members: tuple[Member, ...]
    datas: tuple[Data, ...]

    def __post_init__(self):
        if not self.members:
            raise LobsDICEError("there is nothing to train: the fleet has no runs")
        first = self.datas[0]
        for data in self.datas:
            if (data.state_size, data.action_space) != (first.state_size, first.action_space):
                raise LobsDICEError("the data sets of a fleet must agree in states and actions")
        if len({jax.tree.structure((m.algorithm, m.options)) for m in self.members}) > 1:
            raise LobsDICEError(
                "the runs of a fleet may differ in seed, data and real-valued hyperparameters, "
                "not in the algorithm, in whole numbers or in switches"
            )

    @property
    def steps(self) -> int:
        return self.members[0].options.steps

    def config(self) -> dict[str, Any]:
        """All that determines the outcome."""
        return {
            "members": [
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
        data = self.datas[0]
        initial = jax.vmap(lambda a, key: start(a, key, data.state_size, data.action_space))
        return jax.jit(initial)(_stack([m.algorithm for m in self.members]), self.keys())

    def policies(self, state: State) -> list[Policy]:
        """The averaged policy of each run."""
        nets = jax.device_get(state.average)
        return [
            Policy(
                weights=tuple(w[i] for w in nets.net.weights),
                biases=tuple(b[i] for b in nets.net.biases),
                normaliser=self.datas[member.data].normaliser,
                action_space=self.datas[member.data].action_space,
            )
            for i, member in enumerate(self.members)
        ]

    def failures(self, progress: "Progress") -> dict[int, str]:
        """For each run that has stopped, when and why."""
        names = suspects(progress.metrics)
        found = {}
        for i, member in enumerate(self.members):
            step, bits = int(progress.state.failed_at[i]), int(progress.state.failed_in[i])
            if step >= 0:
                what = ", ".join(name for j, name in enumerate(names) if bits >> j & 1)
                found[i] = (
                    f"run {i} (seed {member.seed}) stopped at step {step}: not finite any more: "
                    f"{what}; smaller learning rates or a larger alpha may help"
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
        for piece in _pieces(min(every, fleet.steps - step)):
            state, metrics = run_chunk(
                algorithms, options, state, pool, slices, keys, jnp.int32(step), steps=piece
            )
            jax.block_until_ready(state.failed_at)
            parts.append(metrics)
            step += piece
            on_steps(piece)
        yield Progress(step, state, jax.tree.map(lambda *xs: np.mean(xs, axis=0), *parts))


@dataclass(frozen=True)
class Run:
    """What training leaves behind."""

    fleet: Fleet
    rows: list[Row]
    policies: list[Policy]
    """The last policy of each run."""
    best: list[Policy]
    """Of each run, the policy with the best mean return among all evaluations (or the last)."""
    failures: dict[int, str]
    """For each run that stopped early, why."""

    def table(self) -> list[Row]:
        """Tidy rows: step, run, seed, losses and, where evaluated, returns."""
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
    **options: Any,
) -> Run:
    """Train one run for each algorithm, data set and seed, all of them in one program.

    With `evaluate` (such as a task's) the policies are scored every `every` steps (default: 50
    times in all) while training goes on. With `out` everything is written to that folder, and an
    interrupted run goes on with `resume`. `options` are those of `Options`.
    """
    members, datas = _members(algorithm, data, seeds, Options(steps=steps, **options))
    return train_fleet(
        Fleet(members, datas), every=every, evaluate=evaluate, out=out, resume=resume
    )


def train_fleet(
    fleet: Fleet,
    *,
    every: int | None = None,
    evaluate: Evaluate | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    about: dict[str, Any] | None = None,
) -> Run:
    """Like `train`, for any fleet; `about` is kept in the folder's config.json."""
    every = max(1, every or fleet.steps // 50)
    folder = RunFolder(Path(out)) if out is not None else None
    recorder = Recorder(fleet, folder)
    begin = (0, fleet.begin())
    if folder is not None:
        folder.begin(
            {"run": fleet.config() | {"every": every}, "about": about or {}}, resume=resume
        )
        begin = folder.read_checkpoint(begin[1])
        recorder.rows.extend(folder.rows(until=begin[0]))
    with progress("Training", fleet.steps) as advance, ThreadPoolExecutor(1) as thread:
        advance(begin[0])

        def on_steps(steps: int) -> None:
            advance(steps)
            recorder.settle(wait=False)

        for now in iterate(fleet, every=every, begin=begin, on_steps=on_steps):
            recorder.settle(wait=True)
            policies = fleet.policies(now.state)
            recorder.pending = (now, policies, evaluate and thread.submit(evaluate, policies))
        recorder.settle(wait=True)
    return recorder.run(begin[1])


@dataclass
class Recorder:
    """Collects what a run leaves, in memory and in its folder."""

    fleet: Fleet
    folder: RunFolder | None
    rows: list[Row] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)
    policies: list[Policy] = field(default_factory=list)
    best: dict[int, Policy] = field(default_factory=dict)
    pending: tuple[Progress, list[Policy], Future | None] | None = None
    """A chunk's outcome whose evaluation may still be under way, while training goes on."""

    def settle(self, *, wait: bool) -> None:
        """Record what is pending if its evaluation is done, or as soon as it is."""
        if self.pending is None:
            return
        evaluation = self.pending[2]
        if wait or evaluation is None or evaluation.done():
            self.record(*self.pending)
            self.pending = None

    def record(self, now: Progress, policies: list[Policy], scores: Future | None) -> None:
        """Take in one chunk's outcome; the checkpoint is written last."""
        results = scores.result() if scores is not None else [{}] * len(policies)
        self._note_failures(now)
        for i, (member, result) in enumerate(zip(self.fleet.members, results, strict=True)):
            if i in self.failures:
                continue
            losses = {name: float(values[i]) for name, values in sorted(now.metrics.items())}
            if result and result["return"] >= self._best_return(i):
                self.best[i] = policies[i]
                self._save("best", i, policies[i])
            self.rows.append({"step": now.step, "run": i, "seed": member.seed} | result | losses)
            self._save("last", i, policies[i])
        self.policies = policies
        say(_summary(now.step, self.rows))
        if self.folder is not None:
            self.folder.write_rows(self.rows)
            self.folder.write_checkpoint(now.step, jax.device_get(now.state))
        if len(self.failures) == len(policies):
            raise LobsDICEError(self.failures[0])

    def run(self, state: State) -> Run:
        """The finished run; `state` serves where there was nothing left to do."""
        policies = self.policies or self.fleet.policies(state)
        best = [self._loaded_best(i) or policy for i, policy in enumerate(policies)]
        return Run(self.fleet, self.rows, policies, best, self.failures)

    def _note_failures(self, now: Progress) -> None:
        for i, message in self.fleet.failures(now).items():
            if i not in self.failures:
                self.failures[i] = message
                say(f"warning: {message}")

    def _best_return(self, run: int) -> float:
        returns = [row["return"] for row in self.rows if row["run"] == run and "return" in row]
        return max(returns, default=-np.inf)

    def _loaded_best(self, run: int) -> Policy | None:
        if run not in self.best and self.folder is not None:
            path = self.folder.policy_path("best", run)
            return load_policy(path) if path.exists() else None
        return self.best.get(run)

    def _save(self, which: str, run: int, policy: Policy) -> None:
        if self.folder is not None:
            policy.save(self.folder.policy_path(which, run))


def _summary(step: int, rows: list[Row]) -> str:
    """One line on the rows of this step: the mean of every column over the runs."""
    these = [row for row in rows if row["step"] == step]
    names = [name for name in (these[0] if these else {}) if name not in ("step", "run", "seed")]
    means = {name: np.mean([row[name] for row in these]) for name in names}
    return f"step {step}: " + ", ".join(f"{name} {value:.4g}" for name, value in means.items())


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


def _stack(trees: Sequence[Any]) -> Any:
    """Trees of numbers as one tree of arrays with a leading axis."""
    return jax.tree.map(lambda *xs: jnp.stack([jnp.asarray(x, jnp.float32) for x in xs]), *trees)


def _pieces(steps: int) -> list[int]:
    """Equal parts of at most `PIECE` steps, so that one compiled program serves them all."""
    size = next(
        (d for d in range(min(PIECE, steps), 0, -1) if steps % d == 0 and d * 10 >= PIECE), steps
    )
    return [size] * (steps // size)
