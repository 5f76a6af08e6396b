"""Measures of a run that need no environment: on held-out rows, and from the learned weights.

Every loss is also computed on held-out rows (labelled demonstrations have none). Every policy is
compared with the actions that the logs took in transitions like the demonstrated ones. Algorithms
of the DICE kind, which have a method `log_weights`, give a weight to each logged transition; that
allows more measures. docs/select.md explains all of them.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float64, Int, Key

from lobsdice.algorithms.base import Algorithm, Metrics
from lobsdice.algorithms.batch import Batch, beside, pairs
from lobsdice.algorithms.networks import PolicyNet, lacking
from lobsdice.data.neighbours import nearest
from lobsdice.data.normaliser import SCALE_OFFSET
from lobsdice.data.prepare import Data, Transitions
from lobsdice.equations.duals import Number, Values
from lobsdice.equations.ratio import Rows
from lobsdice.equations.terminal import Terminal
from lobsdice.errors import LobsDICEError
from lobsdice.training.draws import (
    blurs,
    end_counts,
    end_share,
    following,
    held_out_rows,
    learned_rows,
    pack,
    with_ends,
)
from lobsdice.training.engine import State
from lobsdice.training.scores import Noted

#: Largest number of rows of each part of the data on which a run is measured.
ROWS_HELD_OUT = 2**12
#: Rows that pass through the networks at once, so that a million of them need little memory.
ROWS_AT_ONCE = 2**15
#: Number of demonstrated pairs whose actions are inferred.
INFERRED = 2**10
#: A constant action with a smaller error is as good as any policy: the actions hardly differ.
TRIVIAL = 1e-3
#: The names of measures on rows of training begin with this.
TRAINED = "trained_"
#: Number of random features with which distributions are compared.
FREQUENCIES = 128

RowWeights = Float64[np.ndarray, " n"]


@runtime_checkable
class Weighing(Protocol):
    """An algorithm of the DICE kind, which has these two besides the contract of `Algorithm`."""

    @property
    def gamma(self) -> Number: ...

    def log_weights(self, nets: Any, rows: Transitions) -> Values:
        """log d/d^I at transitions, up to a constant."""
        ...


# ---- Measures on held-out rows ----


class HeldOut(NamedTuple):
    """Rows to measure runs on, the same at every step, with a leading axis of datasets."""

    batch: Batch
    number: Int[Array, "datas n"]
    """The number of each offline row in its data."""
    source: Int[Array, "datas n"]
    """The number of the source of each offline row."""
    shown: Float[Array, "datas m features"]
    """State pairs of all demonstrations, because those held out come from only a few of them."""
    trained: "Trained"
    inferred: "Inferred"


class Trained(NamedTuple):
    """Logged steps that training sees: their weights say which rows the policy clones."""

    rows: Transitions
    source: Int[Any, "*datas n"]


class Inferred(NamedTuple):
    """Demonstrated states, and the actions that `infer_actions` finds for them."""

    s: Float[Array, "*datas m state"]
    a: Float[Array, "*datas m action"] | Int[Array, "*datas m"]


def hold_out(
    cases: Sequence[tuple[Data, float]],
    *,
    restart: bool = False,
    apart: bool = True,
    ahead: Terminal | None = None,
) -> tuple[HeldOut, tuple[str, ...]]:
    """Held-out rows of each dataset with the mass of an end in it, and the names of all sources.

    `restart` and `ahead` are as in `draw_batch`. If `apart` is False, no rows were held out of
    training, and all rows serve.
    """
    datas = [data for data, _ in cases]
    names = tuple(dict.fromkeys(name for data in datas for name in data.source_names))
    sizes = [data.offline.size for data in datas]
    n = min(ROWS_HELD_OUT, *(len(held_out_rows(size)) if apart else size for size in sizes))
    held = [_held_out(data, mass, n, names, restart, apart, ahead) for data, mass in cases]
    found = jax.tree.map(lambda *xs: jnp.stack(xs), *held)
    return found._replace(batch=found.batch._replace(blur=blurs(datas))), names


def _held_out(
    data: Data,
    mass: float,
    n: int,
    names: tuple[str, ...],
    restart: bool,
    apart: bool,
    ahead: Terminal | None,
) -> HeldOut:
    everything, counts = with_ends(data), end_counts(data)

    def chosen(i: int, n: int = n, *, apart: bool = apart) -> _Rows:
        number, ended = _chosen(*counts[i], mass, n, apart=apart)
        part: Any = everything[i]
        rows = part.take(number)
        if restart:
            rows.s_next[ended] = data.init[_fresh(data, ended)[ended]]
        return _Rows(rows, number, ended)

    expert, offline = chosen(1), chosen(2)
    labelled = everything.labelled and chosen(3, apart=False).rows
    init = data.init[_spread(len(data.init), n)]
    batch = Batch(init, expert.rows, offline.rows, labelled, expert.ended)
    if ahead is not None:
        batch = _with_third_states(batch, data, expert, offline, ahead)
    source = _source_of_rows(data, names)
    shown = chosen(1, ROWS_HELD_OUT, apart=False).rows
    return HeldOut(
        batch=jax.tree.map(jnp.asarray, batch),
        number=jnp.asarray(offline.number, jnp.int32),
        source=jnp.asarray(source[offline.number]),
        shown=pairs(jax.tree.map(jnp.asarray, shown)),
        trained=_trained(data, source, n, apart),
        inferred=infer_actions(data),
    )


class _Rows(NamedTuple):
    """Rows of a part of the data."""

    rows: Any
    number: np.ndarray
    """Their numbers in the part."""
    ended: np.ndarray
    """True for those that follow an end."""


def _with_third_states(
    batch: Batch, data: Data, expert: _Rows, offline: _Rows, ahead: Terminal
) -> Batch:
    """The batch with what follows the next states."""
    pool = pack([data])[0]
    after = [
        following(pool, part, rows.number, rows.ended, _fresh(data, rows.ended), ahead)
        for part, rows in ((1, expert), (2, offline))
    ]
    return batch._replace(after_expert=after[0], after_offline=after[1])


def _source_of_rows(data: Data, names: tuple[str, ...]) -> np.ndarray:
    """The place in `names` of the source of each offline row; rows of ends come last."""
    place = np.array([names.index(name) for name in data.source_names])
    return place[np.concatenate([data.source, *([data.ends.source] if data.ends else [])])]


def _trained(data: Data, source: np.ndarray, n: int, apart: bool) -> Trained:
    """Evenly spaced logged steps that training sees."""
    seen = learned_rows(data.offline.size) if apart else np.arange(data.offline.size)
    seen = seen[_spread(len(seen), n)]
    return jax.tree.map(jnp.asarray, Trained(data.offline.take(seen), source[seen]))


def _fresh(data: Data, ended: Bool[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The numbers of initial states for all rows, evenly spaced for those after an end."""
    # In a random order: rows are sorted by source, and starts do not depend on the end.
    found = np.empty(len(ended), np.int64)
    for which in (~ended, ended):
        starts = _spread(len(data.init), int(which.sum()))
        found[which] = np.random.default_rng(0).permutation(starts)
    return found


def _chosen(
    steps: int, ends: int, weight: float, mass: float, n: int, *, apart: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of `n` evenly spaced rows with ends in their due share, and which are ends."""
    few = round(n * float(end_share(steps, ends, mass * weight)))
    of_steps, of_ends = (held_out_rows(x) if apart else np.arange(x) for x in (steps, ends))
    of_steps = of_steps[_spread(len(of_steps), n - few)]
    of_ends = steps + of_ends[_spread(len(of_ends), few)]
    return np.concatenate([of_steps, of_ends]), np.arange(n) >= n - few


def _spread(size: int, n: int) -> np.ndarray:
    """The numbers of `n` evenly spaced rows of `size`."""
    return np.arange(n) * size // max(n, 1)


def infer_actions(data: Data, every: int = 1) -> Inferred:
    """Some demonstrated states, each with the action of the logged pair nearest to its own pair.

    Distances are in s and in s' - s, each in units of its standard deviation. This is an inverse
    dynamics model without training, so the actions are the same for all runs on the same data.
    Only every n-th logged pair is looked at.
    """
    logged = data.offline.take(np.arange(0, data.offline.size, every))
    s, s_next = logged.s, logged.s_next
    scale = (s_next - s).std(axis=0) + SCALE_OFFSET

    def seen(s: np.ndarray, s_next: np.ndarray) -> np.ndarray:
        return np.concatenate([s, (s_next - s) / scale], axis=1)

    shown = data.expert.take(_spread(data.expert.size, INFERRED))
    _, found = nearest(seen(*shown), seen(s, s_next))
    return Inferred(jnp.asarray(shown.s), jnp.asarray(logged.a[found]))


def constant_error(actions: np.ndarray, *, discrete: bool) -> float:
    """The error of the best constant action: the mean, or the most frequent one if discrete."""
    if discrete:
        return float(1 - np.bincount(actions).max() / len(actions))
    return float(np.mean((actions - actions.mean(axis=0)) ** 2))


@partial(jax.jit, static_argnames=("names",))
def diagnose(
    algorithms: Algorithm,
    states: State,
    keys: Key[Array, " runs"],
    held: HeldOut,
    which: Int[Array, " runs"],
    noted: Noted | None = None,
    *,
    names: tuple[str, ...],
) -> Metrics:
    """All measures of all runs; `which` is the dataset of each run, `names` are of the sources.

    `noted` has what the runs note about the logged steps, if they do.
    """

    def one_run(run):
        algorithm, nets, average, key, i, first = run
        # The averaged policy is the one that is kept.
        nets = nets._replace(policy=average)
        batch, number, source, shown, trained, inferred = jax.tree.map(lambda x: x[i], held)
        if noted is not None:
            notes = jax.tree.map(lambda x: x[first + number], noted.notes)
            batch = batch._replace(notes=notes)
        _, metrics = algorithm.loss(nets, batch, key, penalised=0)
        losses = {f"held_out_{k}": x for k, x in metrics.items() if k.endswith("_loss")}
        found = losses | algorithm.diagnose(nets, batch, key)
        found |= {"demonstration_error": jnp.mean(nets.policy.error(*inferred))}
        if isinstance(algorithm, Weighing):
            w = jax.nn.softmax(algorithm.log_weights(nets, batch.offline))
            found |= weight_measures(w, nets.policy, batch, algorithm.gamma, key)
            found |= {"expert_distance": expert_distance(w, batch.offline, shown)}
            found |= masses(w, source, names)
            w = jax.nn.softmax(algorithm.log_weights(nets, trained.rows))
            seen = {"effective_share": effective_share(w)} | masses(w, trained.source, names)
            found |= {f"{TRAINED}{name}": x for name, x in seen.items()}
        return found

    # One after the other: side by side they would take memory, for little gain.
    first = which if noted is None else noted.start
    return jax.lax.map(one_run, (algorithms, states.nets, states.average, keys, which, first))


def weight_measures(
    w: Values, policy: PolicyNet, batch: Batch, gamma: Number, key: Key[Array, ""]
) -> Metrics:
    """Measures of the shares w that offline rows have in the learned distribution d."""
    rows = batch.offline
    acted = with_action(w, rows)
    return {
        "effective_share": effective_share(w),
        "largest_share": jnp.max(w),
        "flow_residual": flow_residual(w, batch, gamma),
        "policy_distance": policy_distance(acted, policy, rows, key),
        "action_error": jnp.sum(acted * policy.error(rows.s, rows.a)),
    }


def effective_share(w: Values) -> Float[Array, ""]:
    """The effective sample size of shares w, as a share of the rows."""
    return 1 / (len(w) * jnp.sum(w**2))


def with_action(w: Values, rows: Transitions) -> Values:
    """The shares among the rows with an action; all zero if these have none."""
    acted = jnp.where(lacking(rows.a), 0.0, w)
    total = jnp.sum(acted)
    return acted / jnp.where(total > 0, total, 1.0)


def flow_residual(w: Values, batch: Batch, gamma: Number) -> Float[Array, ""]:
    """The distance of (1-γ) p0(s) + γ Σ d(s',a') T(s|s',a') from d(s); 0 if d is an occupancy."""
    start = jnp.full(len(batch.init), (1 - gamma) / len(batch.init))
    points = jnp.concatenate([batch.init, batch.offline.s_next, batch.offline.s])
    return discrepancy(points, jnp.concatenate([start, gamma * w, -w]))


def expert_distance(
    w: Values, rows: Transitions, shown: Float[Array, "m features"]
) -> Float[Array, ""]:
    """The distance of d(s,s') from the expert's d^E(s,s')."""
    points = jnp.concatenate([shown, pairs(rows)])
    return discrepancy(points, jnp.concatenate([jnp.full(len(shown), 1 / len(shown)), -w]))


def policy_distance(
    w: Values, policy: PolicyNet, rows: Transitions, key: Key[Array, ""]
) -> Float[Array, ""]:
    """The distance of d(s) π(a|s) from d(s,a)."""
    taken, chosen = (
        beside(rows.s, policy.features(a)) for a in (rows.a, policy.sample(rows.s, key))
    )
    return discrepancy(jnp.concatenate([taken, chosen]), jnp.concatenate([w, -w]))


def discrepancy(points: Rows, mass: Values) -> Float[Array, ""]:
    """The kernel norm of a measure; for P - Q, the maximum mean discrepancy (Gretton et al. 2012).

    The kernel is Gaussian, of the width √(number of features), a typical distance of states. It is
    approximated by random Fourier features (Rahimi and Recht, 2007), the same in all runs.
    """
    size = points.shape[1]
    frequencies = np.random.default_rng(0).normal(size=(size, FREQUENCIES)) / np.sqrt(size)
    # Differences of nearly equal sums need more than an accelerator's products of low precision.
    with jax.default_matmul_precision("highest"):
        angles = points @ jnp.asarray(frequencies, points.dtype)
        even, odd = mass @ jnp.cos(angles), mass @ jnp.sin(angles)
    return jnp.sqrt(jnp.mean(even**2 + odd**2))


def masses(w: Values, source: Int[Array, " n"], names: Sequence[str]) -> Metrics:
    """The share of each source in d, if there is more than one."""
    shares = w @ jax.nn.one_hot(source, len(names))
    return {f"mass_{name}": shares[i] for i, name in enumerate(names) if len(names) > 1}


# ---- Weights of all rows ----


def row_weights(algorithm: Algorithm, nets: Any, data: Data) -> RowWeights:
    """The share of each offline row in the learned distribution d of one run.

    `nets` are those of one run (of a fleet's state, `jax.tree.map(lambda x: x[i], state.nets)`).
    Shares sum to one, unless all weights are zero, as those of χ² may be. Row i is row i of
    `data.offline`, a transition of the offline episode `data.episode[i]`. The rows of an episode
    are in the order of its steps. Ends have no row here.
    """
    if not isinstance(algorithm, Weighing):
        raise LobsDICEError(f"{type(algorithm).__name__} does not weigh the offline data")
    return shares(_all_log_weights(algorithm, nets, data))


def shares(log_weights: RowWeights) -> RowWeights:
    """The weights divided by their sum; all zero if all weights are."""
    top = log_weights.max()
    w = np.exp(log_weights - top) if top > -np.inf else np.zeros_like(log_weights)
    return w / max(w.sum(), 1.0)


def episode_weights(
    weights: RowWeights, data: Data, episodes: int
) -> Float64[np.ndarray, " episodes"]:
    """The sum of the weights of each offline episode."""
    if data.episode is None:
        raise LobsDICEError("the data does not say which episode each transition belongs to")
    return np.bincount(data.episode, weights, minlength=episodes)


def _all_log_weights(algorithm: Weighing, nets: Any, data: Data) -> RowWeights:
    n = data.offline.size
    size = min(ROWS_AT_ONCE, n)
    found = []
    for first in range(0, n, size):
        # The last row is repeated past the end: one compiled program serves pieces of one size.
        rows = np.minimum(np.arange(first, first + size), n - 1)
        piece = jax.tree.map(jnp.asarray, data.offline.take(rows))
        found.append(np.asarray(_log_weights(algorithm, nets, piece), np.float64))
    return np.concatenate(found)[:n]


@jax.jit
def _log_weights(algorithm: Any, nets: Any, rows: Transitions) -> Values:
    return algorithm.log_weights(nets, rows)
