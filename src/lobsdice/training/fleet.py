"""A fleet: runs that train in one program, and the datasets that they learn from."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Float64

from lobsdice.algorithms.base import Algorithm, Metrics
from lobsdice.data.prepare import Data
from lobsdice.data.spaces import ActionSpace
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import Policy
from lobsdice.tabular.ends import check_terminal
from lobsdice.training.diagnostics import diagnose, hold_out
from lobsdice.training.draws import end_mass, pack
from lobsdice.training.engine import Member, Options, State, run_chunk, start, watched
from lobsdice.training.folder import describe, fingerprint

#: Steps between two updates of the progress bar, roughly.
PIECE = 1000
#: Runs in one program at most.
MOST_RUNS = 10_000
#: Whole numbers must be smaller, because devices count with 32 bits.
BOUND = 2**31
#: Evaluations of a run, unless the user says otherwise.
EVALUATIONS = 50

Means = dict[str, Float64[np.ndarray, " runs"] | Float32[np.ndarray, " runs"]]


class Progress(NamedTuple):
    """The state of a fleet after a chunk of steps. Arrays have one entry a run."""

    step: int
    state: State
    metrics: Means


@dataclass(frozen=True)
class Fleet:
    """Runs that train in one program."""

    members: tuple[Member, ...]
    datas: tuple[Data, ...]

    def __post_init__(self):
        if not self.members:
            raise LobsDICEError("there is nothing to train: the fleet has no runs")
        _check_datasets(self.datas)
        for member in self.members:
            _check_member(member, self.datas[member.data])
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
        """Steps from one penalised step to the next; the last block of a chunk may be shorter."""
        return self.members[0].algorithm.penalty_every

    def config(self) -> dict[str, Any]:
        """Everything that determines the outcome, as plain data."""
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
                {"fingerprint": fingerprint(d), "action_space": d.action_space.to_json()}
                for d in self.datas
            ],
        }

    def keys(self) -> jax.Array:
        """The random key of each run."""
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
        """A function from the state of all runs to their measures on held-out rows."""
        options = self.members[0].options
        # The number of ends among the rows depends on the data and on the mass of an end.
        cases = [(m.data, end_mass(m.algorithm, options.terminal)) for m in self.members]
        different = list(dict.fromkeys(cases))
        held, names = hold_out(
            [(self.datas[i], mass) for i, mass in different],
            restart=options.terminal == "restart",
            apart=options.hold_out,
        )
        algorithms, keys = _stack([m.algorithm for m in self.members]), self.keys()
        which = jnp.array([different.index(case) for case in cases])

        def measure(state: State) -> Means:
            return jax.device_get(diagnose(algorithms, state, keys, held, which, names=names))

        return measure

    def failures(self, now: Progress) -> dict[int, str]:
        """The step and the reason, for each run that has stopped."""
        failed_at, failed_in = jax.device_get((now.state.failed_at, now.state.failed_in))
        names = watched(now.metrics)
        found = {}
        for i in np.flatnonzero(failed_at >= 0).tolist():
            what = ", ".join(name for j, name in enumerate(names) if failed_in[i] >> j & 1)
            found[i] = (
                f"run {i} (seed {self.members[i].seed}) stopped at step {failed_at[i]}, where "
                f"numbers ceased to be finite: {what}; try smaller learning rates or a larger alpha"
            )
        return found


def make_fleet(
    algorithm: Algorithm | Sequence[Algorithm],
    data: Data | Sequence[Data],
    seeds: int | Sequence[int],
    options: Options,
) -> Fleet:
    """A fleet with a run for each algorithm, dataset and seed; `seeds=5` stands for 0 to 4."""
    check_seeds(seeds)
    algorithms = list(algorithm) if isinstance(algorithm, Sequence) else [algorithm]
    datas = tuple(data) if isinstance(data, Sequence) else (data,)
    numbers = range(seeds) if isinstance(seeds, int) else seeds
    members = tuple(
        Member(a, seed, i, options)
        for a in algorithms
        for i in range(len(datas))
        for seed in numbers
    )
    return Fleet(members, datas)


def check_seeds(seeds: int | Sequence[int]) -> None:
    """Raise if there are too many seeds, before that many runs are made."""
    count = seeds if isinstance(seeds, int) else len(seeds)
    if count > MOST_RUNS:
        raise LobsDICEError(f"there are {count} seeds; there must be at most {MOST_RUNS}")


def iterate(
    fleet: Fleet,
    *,
    every: int,
    begin: tuple[int, State] | None = None,
    on_steps: Callable[[int], None] = lambda steps: None,
) -> Iterator[Progress]:
    """Train, and yield every `every` steps: the bare loop, for those who log in their own way.

    `begin` is the step and the state to continue from. `on_steps` is called after each smaller
    piece of work with its number of steps.
    """
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
            if (np.asarray(state.failed_at) >= 0).all():  # further steps would change nothing
                break
        yield Progress(step, state, _means(parts, pieces[: len(parts)]))


def default_every(fleet: Fleet) -> int:
    """About a fiftieth of all steps: whole blocks and, if possible, a divisor of all steps."""
    blocks = fleet.steps // fleet.block
    least = max(1, -(-blocks // EVALUATIONS))
    # A chunk of another length, such as a shorter last one, is another program to compile.
    size = next((n for n in range(least, 2 * least + 1) if blocks % n == 0), least)
    return size * fleet.block


def split(steps: int, block: int) -> list[int]:
    """Pieces of about `PIECE` steps, equal if possible: one compiled program then serves all."""
    most = max(PIECE // block, 1) * block
    sizes = range(most, PIECE // 10, -block)
    size = next((n for n in sizes if steps % n == 0), min(most, steps))
    rest = [steps % size] if steps % size else []
    return [size] * (steps // size) + rest


def in_background(job: Callable[[Any], Any], argument: Any) -> Future:
    """The future result of a job in a thread of its own, which dies with an interrupted program.

    An executor's threads would not: Python waits for them at exit.
    """
    future = Future()

    def work() -> None:
        try:
            future.set_result(job(argument))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


@partial(jax.jit, static_argnames=("state_size", "space"))
def _begin(algorithms: Algorithm, keys: jax.Array, state_size: int, space: ActionSpace) -> State:
    return jax.vmap(lambda a, key: start(a, key, state_size, space))(algorithms, keys)


def _stack(trees: Sequence[Any]) -> Any:
    """Trees of numbers as one tree of arrays with a leading axis."""
    return jax.tree.map(lambda *xs: jnp.stack([jnp.asarray(x, jnp.float32) for x in xs]), *trees)


def _check_datasets(datas: Sequence[Data]) -> None:
    first = datas[0]
    for data in datas:
        if (data.state_size, data.action_space) != (first.state_size, first.action_space):
            raise LobsDICEError("the datasets of a fleet must agree in states and actions")
        if (data.labelled is None) != (first.labelled is None):
            raise LobsDICEError("all datasets of a fleet must have labels, or none")


def _check_member(member: Member, data: Data) -> None:
    if not 0 <= member.seed < 2**32:
        raise LobsDICEError(f"a seed is {member.seed}; it must be at least 0 and below 2^32")
    if member.algorithm.needs_labels and data.labelled is None:
        raise LobsDICEError(
            f"{type(member.algorithm).__name__} learns from demonstrations with actions, "
            "but the data has none; give them to `prepare` as `labelled`"
        )
    for settings in (member.algorithm, member.options):
        _check_whole_numbers(settings)
    check_terminal(member.options.terminal, getattr(member.algorithm, "gamma", 0.0))


def _check_whole_numbers(settings: Any) -> None:
    """Raise if a hyperparameter is a larger number than devices can count to."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, int) and value >= BOUND:
            raise LobsDICEError(f"{field.name} is {value}; it must be below 2^31")


def _means(parts: list[Metrics], weights: list[int]) -> Means:
    return jax.tree.map(lambda *xs: np.average(xs, axis=0, weights=weights), *parts)


def _wait(array: Any) -> None:
    """Wait until an array is computed, by another thread: waiting in JAX would not hear Ctrl-C."""
    in_background(jax.block_until_ready, array).result()
