"""A fleet: runs that train in one program, and the datasets that they learn from."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Float64

from lobsdice.algorithms import Algorithm
from lobsdice.algorithms.base import Metrics
from lobsdice.algorithms.registry import resolve
from lobsdice.data.prepare import Data
from lobsdice.data.spaces import ActionSpace
from lobsdice.equations.terminal import check_terminal
from lobsdice.errors import LobsDICEError, plural
from lobsdice.policies.policy import Policy
from lobsdice.rewards.scores import Scores
from lobsdice.training.devices import spread
from lobsdice.training.diagnostics import diagnose, hold_out
from lobsdice.training.draws import Pool, Slices, end_mass, pack
from lobsdice.training.engine import Member, Options, State, run_chunk, start, watched
from lobsdice.training.folder import describe, fingerprint
from lobsdice.training.scores import Case, Noted, find_scores, noted
from lobsdice.training.stages import learn_ratios
from lobsdice.training.stream import Stream

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
    found: Mapping[Case, Scores] | None = None
    """The scores that the runs need, if they are known already."""

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

    @cached_property
    def scores(self) -> Mapping[Case, Scores]:
        """The scores of logged steps that the runs need; empty if they need none."""
        if self.found is not None:
            return self.found
        return find_scores(self.members, self.datas, learn)

    @cached_property
    def noted(self) -> Noted | None:
        """The notes of the runs on the logged steps; None if there are none."""
        return noted(self.members, self.datas, self.scores)

    def pool(self, datas: Sequence[Data] | None = None) -> tuple[Pool, Slices]:
        """All rows of all datasets with what is noted about them, and the slices of each run.

        `datas` are the datasets with other logged steps in memory.
        """
        pool, slices = pack(self.datas if datas is None else datas)
        which = jnp.array([m.data for m in self.members])
        slices = jax.tree.map(lambda x: x[which], slices)
        if self.noted is None:
            return pool, slices
        return (
            pool._replace(notes=self.noted.notes),
            slices._replace(notes=self.noted.start),
        )

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
            ahead=options.terminal if self.members[0].algorithm.looks_ahead else None,
        )
        algorithms, keys = _stack([m.algorithm for m in self.members]), self.keys()
        which = jnp.array([different.index(case) for case in cases])

        def measure(state: State) -> Means:
            found = diagnose(algorithms, state, keys, held, which, self.noted, names=names)
            return jax.device_get(found)

        return measure

    def failures(self, now: Progress) -> dict[int, str]:
        """The step, the reason and what to do, for each run that has stopped."""
        advice = "try smaller learning rates or a larger alpha"
        return {
            i: f"run {i} (seed {self.members[i].seed}) {stopped}; {advice}"
            for i, stopped in self.stops(now).items()
        }

    def stops(self, now: Progress) -> dict[int, str]:
        """The step and the reason, for each run that has stopped."""
        failed_at, failed_in = jax.device_get((now.state.failed_at, now.state.failed_in))
        names = watched(now.metrics)
        found = {}
        for i in np.flatnonzero(failed_at >= 0).tolist():
            what = ", ".join(name for j, name in enumerate(names) if failed_in[i] >> j & 1)
            found[i] = f"stopped at step {failed_at[i]}, where numbers ceased to be finite: {what}"
        return found


def make_fleet(
    algorithm: Algorithm | str | Sequence[Algorithm | str],
    data: Data | Sequence[Data],
    seeds: int | Sequence[int],
    options: Options,
) -> Fleet:
    """A fleet with a run for each algorithm, dataset and seed; `seeds=5` stands for 0 to 4."""
    check_seeds(seeds)
    alone = isinstance(algorithm, str) or not isinstance(algorithm, Sequence)
    chosen: Any = [algorithm] if alone else algorithm
    algorithms = list(map(resolve, chosen))
    datas = tuple(data) if isinstance(data, Sequence) else (data,)
    _check_data(datas)
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
    if not isinstance(seeds, int) and not isinstance(seeds, Sequence | range):
        raise LobsDICEError(
            f"`seeds` is {seeds!r}; it must be the number of seeds, or a list of them"
        )
    count = seeds if isinstance(seeds, int) else len(seeds)
    if count > MOST_RUNS:
        raise LobsDICEError(f"there are {count} seeds; there must be at most {MOST_RUNS}")


def iterate(
    fleet: Fleet,
    *,
    every: int,
    begin: tuple[int, State] | None = None,
    on_steps: Callable[[int], None] = lambda steps: None,
    devices: int | None = None,
) -> Iterator[Progress]:
    """Train, and yield every `every` steps: the bare loop, for those who log in their own way.

    `begin` is the step and the state to continue from. `on_steps` is called after each smaller
    piece of work with its number of steps. The runs are divided among `devices` devices; without
    a number, among all of this host.
    """
    places = spread(len(fleet.members), devices)
    step, state = begin or (0, fleet.begin())
    stream = Stream(fleet.datas, step, fleet.pool, places.copies, in_background)
    slices = places.each(stream.slices)
    algorithms, options = places.each(_stack([(m.algorithm, m.options) for m in fleet.members]))
    keys = places.each(fleet.keys())
    chunk = places.program(run_chunk, streams=stream.changes)
    state = places.each(state)
    while step < fleet.steps:
        parts = []
        pieces = split(min(every, fleet.steps - step), fleet.block)
        for piece in pieces:
            pool = stream.at(step)
            state, metrics = chunk(
                algorithms, options, state, pool, slices, keys, jnp.int32(step), steps=piece
            )
            _wait(state.failed_at)
            parts.append(places.gathered(metrics))
            step += piece
            on_steps(piece)
            if (np.asarray(state.failed_at) >= 0).all():  # further steps would change nothing
                break
        yield Progress(step, places.gathered(state), _means(parts, pieces[: len(parts)]))


def default_every(fleet: Fleet) -> int:
    """About a fiftieth of all steps: whole blocks and, if possible, a divisor of all steps."""
    blocks = fleet.steps // fleet.block
    least = max(1, -(-blocks // EVALUATIONS))
    # A chunk of another length, such as a shorter last one, is another program to compile.
    size = next((n for n in range(least, 2 * least + 1) if blocks % n == 0), least)
    return size * fleet.block


def split(steps: int, block: int) -> list[int]:
    """Pieces of about `PIECE` steps, equal if possible: one compiled program then serves all.

    All are whole blocks, but for a last one that is shorter than a block.
    """
    most = max(PIECE // block, 1) * block
    sizes = range(most, PIECE // 10, -block)
    rest = steps % block
    whole = steps - rest
    size = next((n for n in sizes if whole % n == 0), most)
    return [size] * (whole // size) + [n for n in (whole % size, rest) if n]


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


def learn(cases: Sequence[Case], datas: Sequence[Data]) -> list[Scores]:
    """Scores that must be learned before the runs of a fleet can be."""
    seeds, which = [case.seed or 0 for case in cases], [case.data for case in cases]
    return learn_ratios(cases[0].kind, seeds, which, datas, _fit)


def _fit(
    members: Sequence[Member], datas: Sequence[Data], on_steps: Callable[[int], None]
) -> State:
    """The state of a fleet after its last step."""
    fleet = Fleet(tuple(members), tuple(datas))
    *_, last = iterate(fleet, every=fleet.steps, on_steps=on_steps)
    if failures := fleet.failures(last):
        raise LobsDICEError(f"no rewards could be learned: {next(iter(failures.values()))}")
    return last.state


@partial(jax.jit, static_argnames=("state_size", "space"))
def _begin(algorithms: Algorithm, keys: jax.Array, state_size: int, space: ActionSpace) -> State:
    return jax.vmap(lambda a, key: start(a, key, state_size, space))(algorithms, keys)


def _stack(trees: Sequence[Any]) -> Any:
    """Trees of numbers as one tree of arrays with a leading axis."""
    return jax.tree.map(lambda *xs: jnp.stack([jnp.asarray(x, jnp.float32) for x in xs]), *trees)


def _check_data(datas: Sequence[Any]) -> None:
    for found in datas:
        if not isinstance(found, Data):
            raise LobsDICEError(
                f"`data` is a value of type {type(found).__name__}; make training data with "
                "ld.prepare(demonstrations, logs), or call ld.fit with the episodes themselves"
            )


def _check_datasets(datas: Sequence[Data]) -> None:
    first = datas[0]
    for data in datas:
        if (data.state_size, data.action_space) != (first.state_size, first.action_space):
            raise LobsDICEError("the datasets of a fleet must agree in states and actions")
        if (data.labelled is None) != (first.labelled is None):
            raise LobsDICEError("all datasets of a fleet must have labels, or none")


def _check_triples(name: str, data: Data) -> None:
    """Raise unless some step of both parts has a state after the next one."""
    wish = f"{name} learns from three states in a row, but"
    if data.every > 1:
        raise LobsDICEError(
            f"{wish} only one in {data.every} transitions of the demonstrations is kept; keep all "
            "of them, or choose another algorithm"
        )
    if data.blocks is not None:
        raise LobsDICEError(f"{wish} logs that stay on the disk have only two; leave `pool` out")
    if data.ahead is None:
        raise LobsDICEError(
            f"{wish} the data does not say how episodes go on; make it with `prepare`"
        )
    parts = {"demonstrations": data.expert, "logs": data.offline}
    for (what, steps), terminates in zip(parts.items(), data.ahead[:2], strict=True):
        if steps.final[steps.row + 1].all() and not terminates.any():
            raise LobsDICEError(
                f"{wish} the {what} have only two in each episode; choose another algorithm"
            )


def _check_member(member: Member, data: Data) -> None:
    if not 0 <= member.seed < 2**32:
        raise LobsDICEError(f"a seed is {member.seed}; it must be at least 0 and below 2^32")
    if member.algorithm.needs_labels and data.labelled is None:
        raise LobsDICEError(
            f"{type(member.algorithm).__name__} learns from demonstrations with actions, "
            "but the data has none; give them to `prepare` as `labelled`"
        )
    if member.algorithm.looks_ahead:
        _check_triples(type(member.algorithm).__name__, data)
    _check_together(member.algorithm, member.options)
    if member.algorithm.scored_by is not None and data.blocks is not None:
        raise LobsDICEError(
            f"{type(member.algorithm).__name__} needs numbers about all logged steps before it "
            "learns, so that all of them must be in memory; leave `pool` out"
        )
    for settings in (member.algorithm, member.options):
        _check_whole_numbers(settings)
    check_terminal(member.options.terminal, getattr(member.algorithm, "gamma", 0.0))


def _check_together(algorithm: Algorithm, options: Options) -> None:
    """Raise if a hyperparameter does not go with the options of training."""
    pretrain, steps = getattr(algorithm, "pretrain", 0), options.steps
    if pretrain >= steps:
        raise LobsDICEError(
            f"`pretrain` is {pretrain}, but there are only {plural(steps, 'step')} in all (`steps`)"
            ": the policy would never learn"
        )
    if getattr(algorithm, "calibrate", False) and not options.hold_out:
        raise LobsDICEError("`calibrate` needs held-out rows, but `hold_out` is False")


def _check_whole_numbers(settings: Any) -> None:
    """Raise if a hyperparameter is a larger number than devices can count to."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, int) and value >= BOUND:
            raise LobsDICEError(f"`{field.name}` is {value}; it must be below 2^31")


def _means(parts: list[Metrics], weights: list[int]) -> Means:
    return jax.tree.map(lambda *xs: np.average(xs, axis=0, weights=weights), *parts)


def _wait(array: Any) -> None:
    """Wait until an array is computed, by another thread: waiting in JAX would not hear Ctrl-C."""
    in_background(jax.block_until_ready, array).result()
