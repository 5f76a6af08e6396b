"""What can be said of a run without an environment: measures on rows held out, and weights.

Every loss is taken on rows that nothing was learned from (but for labelled demonstrations, of which
none are held out), and every policy is compared with what the recordings did to move as the
demonstrations do. Algorithms of the DICE kind, those with a method `log_weights`, say how much each
recorded transition counts in the distribution d that they have learned, which tells more:
docs/select.md explains the measures.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int, Key

from lobsdice.algorithms.base import Algorithm, Batch, Labelled, Metrics
from lobsdice.algorithms.discriminator import beside
from lobsdice.algorithms.networks import PolicyNet
from lobsdice.data.neighbours import nearest
from lobsdice.data.prepare import SCALE_OFFSET, Data
from lobsdice.equations.duals import Number, Values
from lobsdice.equations.ratio import Rows
from lobsdice.errors import LobsDICEError
from lobsdice.training.engine import State, held_out_rows

#: Rows of each part, at most, on which a run is diagnosed.
ROWS_HELD_OUT = 2**12
#: Rows that pass through the networks at once, so that a million of them need little memory.
ROWS_AT_ONCE = 2**15
#: Demonstrated pairs whose actions are inferred.
INFERRED = 2**10
#: Random features with which distributions are compared.
FREQUENCIES = 128

RowWeights = Float64[np.ndarray, " n"]


@runtime_checkable
class Weighing(Protocol):
    """What an algorithm of the DICE kind has besides the contract."""

    @property
    def gamma(self) -> Number: ...

    def log_weights(self, nets: Any, batch: Batch | Labelled) -> Values:
        """log d/d^I at transitions, up to a constant."""
        ...


# ---- Measures on rows held out ----


class HeldOut(NamedTuple):
    """Rows to diagnose runs on, the same at every step; with a leading axis of data sets."""

    batch: Batch
    source: Int[Array, "datas n"]
    """Which of the sources each offline row is from."""
    shown: Float[Array, "datas m features"]
    """State pairs of all demonstrations: those held out are a few moments of a few episodes."""
    inferred: "Inferred"


class Inferred(NamedTuple):
    """Demonstrated states, and the action that recordings took to move alike."""

    s: Float[Array, "*datas m state"]
    a: Float[Array, "*datas m action"] | Int[Array, "*datas m"]


def hold_out(datas: Sequence[Data], *, apart: bool) -> tuple[HeldOut, tuple[str, ...]]:
    """Rows of each data set, evenly spaced over those held `apart` or over all; all sources."""
    names = tuple(dict.fromkeys(name for data in datas for name in data.source_names))
    rows = [_rows(len(data.offline.s), apart) for data in datas]
    n = min(ROWS_HELD_OUT, *map(len, rows))
    held = [_held_out(data, n, apart, names) for data in datas]
    return jax.tree.map(lambda *xs: jnp.stack(xs), *held), names


def _held_out(data: Data, n: int, apart: bool, names: tuple[str, ...]) -> HeldOut:
    def take(part: Sequence[np.ndarray], *, apart: bool = False, n: int = n) -> list[Array]:
        rows = _rows(len(part[0]), apart)
        chosen = rows[np.arange(n) * len(rows) // n]
        return [jnp.asarray(x[chosen]) for x in part]

    number = np.array([names.index(name) for name in data.source_names])
    (init,) = take([data.init])
    labelled = data.labelled and Labelled(*take(data.labelled))
    expert_s, expert_s_next = take(data.expert, apart=apart)
    s, a, s_next, source = take([*data.offline, number[data.source]], apart=apart)
    batch = Batch(init, expert_s, expert_s_next, s, a, s_next, labelled)
    shown = beside(*take(data.expert, n=ROWS_HELD_OUT))
    return HeldOut(batch, source, shown, infer_actions(data))


def infer_actions(data: Data) -> Inferred:
    """For some of the demonstrated pairs, the action of the recorded one that is nearest to each.

    Nearest in state and in movement, each in units of its own spread. This is an inverse dynamics
    model that needs no training: all runs on the same data are held against the same actions.
    """
    scale = (data.offline.s_next - data.offline.s).std(axis=0) + SCALE_OFFSET

    def seen(s: np.ndarray, s_next: np.ndarray) -> np.ndarray:
        return np.concatenate([s, (s_next - s) / scale], axis=1)

    rows = np.arange(INFERRED) * len(data.expert.s) // INFERRED
    shown = (data.expert.s[rows], data.expert.s_next[rows])
    _, found = nearest(seen(*shown), seen(data.offline.s, data.offline.s_next))
    return Inferred(jnp.asarray(shown[0]), jnp.asarray(data.offline.a[found]))


def _rows(size: int, apart: bool) -> np.ndarray:
    return held_out_rows(size) if apart else np.arange(size)


@partial(jax.jit, static_argnames=("names",))
def diagnose(
    algorithms: Algorithm,
    states: State,
    keys: Key[Array, " runs"],
    held: HeldOut,
    which: Int[Array, " runs"],
    *,
    names: tuple[str, ...],
) -> Metrics:
    """All measures of all runs; `which` is each one's data set, `names` are the sources'."""

    def one_run(run):
        algorithm, nets, average, key, i = run
        # The averaged policy is the one that is kept.
        nets = nets._replace(policy=average)
        batch, source, shown, inferred = jax.tree.map(lambda x: x[i], held)
        _, metrics = algorithm.loss(nets, batch, key, penalised=0)
        losses = {f"held_out_{k}": x for k, x in metrics.items() if k.endswith("_loss")}
        found = losses | algorithm.diagnose(nets, batch, key)
        found |= {"demonstration_error": jnp.mean(nets.policy.error(*inferred))}
        if isinstance(algorithm, Weighing):
            w = jax.nn.softmax(algorithm.log_weights(nets, batch))
            found |= weight_measures(w, nets.policy, batch, algorithm.gamma, key)
            found |= {"expert_distance": expert_distance(w, batch, shown)}
            found |= masses(w, source, names)
        return found

    # One after the other: side by side they would take memory, for little gain.
    return jax.lax.map(one_run, (algorithms, states.nets, states.average, keys, which))


def weight_measures(
    w: Values, policy: PolicyNet, batch: Batch, gamma: Number, key: Key[Array, ""]
) -> Metrics:
    """What the shares w of offline rows in the learned distribution d say about it."""
    return {
        "effective_share": 1 / (len(w) * jnp.sum(w**2)),
        "largest_share": jnp.max(w),
        "flow_residual": flow_residual(w, batch, gamma),
        "policy_distance": policy_distance(w, policy, batch, key),
        "action_error": jnp.sum(w * policy.error(batch.s, batch.a)),
    }


def flow_residual(w: Values, batch: Batch, gamma: Number) -> Float[Array, ""]:
    """How far (1-γ) p0(s) + γ Σ d(s',a') T(s|s',a') is from d(s): zero if d can be lived."""
    start = jnp.full(len(batch.init), (1 - gamma) / len(batch.init))
    points = jnp.concatenate([batch.init, batch.s_next, batch.s])
    return discrepancy(points, jnp.concatenate([start, gamma * w, -w]))


def expert_distance(w: Values, batch: Batch, shown: Float[Array, "m features"]) -> Float[Array, ""]:
    """How far d(s,s') is from the expert's d^E(s,s')."""
    points = jnp.concatenate([shown, beside(batch.s, batch.s_next)])
    return discrepancy(points, jnp.concatenate([jnp.full(len(shown), 1 / len(shown)), -w]))


def policy_distance(
    w: Values, policy: PolicyNet, batch: Batch, key: Key[Array, ""]
) -> Float[Array, ""]:
    """How far d(s) π(a|s) is from d(s,a)."""
    taken, chosen = (
        beside(batch.s, policy.features(a)) for a in (batch.a, policy.sample(batch.s, key))
    )
    return discrepancy(jnp.concatenate([taken, chosen]), jnp.concatenate([w, -w]))


def discrepancy(points: Rows, mass: Values) -> Float[Array, ""]:
    """The norm of a signed measure; of P - Q, their maximum mean discrepancy (Gretton et al. 2012).

    Under a Gaussian kernel as wide as typical states are apart, √(number of features), by random
    Fourier features (Rahimi and Recht, 2007): always the same ones, so that runs compare.
    """
    size = points.shape[1]
    frequencies = np.random.default_rng(0).normal(size=(size, FREQUENCIES)) / np.sqrt(size)
    # Differences of nearly equal sums: an accelerator's short products would not do.
    with jax.default_matmul_precision("highest"):
        angles = points @ jnp.asarray(frequencies, points.dtype)
        even, odd = mass @ jnp.cos(angles), mass @ jnp.sin(angles)
    return jnp.sqrt(jnp.mean(even**2 + odd**2))


def masses(w: Values, source: Int[Array, " n"], names: Sequence[str]) -> Metrics:
    """The share of each source, where there is more than one."""
    shares = w @ jax.nn.one_hot(source, len(names))
    return {f"mass_{name}": shares[i] for i, name in enumerate(names) if len(names) > 1}


# ---- Weights of all rows ----


def row_weights(algorithm: Algorithm, nets: Any, data: Data) -> RowWeights:
    """The share of each offline row in the learned distribution d, as a run's networks see it.

    `nets` are those of one run (of a fleet's state, `jax.tree.map(lambda x: x[i], state.nets)`).
    Shares sum to one, unless all weights are zero, as those of χ² may be. Row i is row i of
    `data.offline`, a transition of the offline episode `data.episode[i]`. Episodes have rows in the
    order of their steps, but for what `prepare` does with terminal steps: `drop` leaves them out,
    and `absorbing` adds, at the very end, one row for each episode that terminated.
    """
    if not isinstance(algorithm, Weighing):
        raise LobsDICEError(f"{type(algorithm).__name__} does not weigh the offline data")
    return shares(_all_log_weights(algorithm, nets, data))


def shares(log_weights: RowWeights) -> RowWeights:
    """Weights divided by their sum; zero where all of them are."""
    top = log_weights.max()
    w = np.exp(log_weights - top) if top > -np.inf else np.zeros_like(log_weights)
    return w / max(w.sum(), 1.0)


def episode_weights(
    weights: RowWeights, data: Data, episodes: int
) -> Float64[np.ndarray, " episodes"]:
    """The share of each of so many offline episodes: the sum of those of its rows.

    0 for an episode without any, such as a single terminal step that was dropped.
    """
    if data.episode is None:
        raise LobsDICEError("the data does not say which episode each transition is of")
    return np.bincount(data.episode, weights, minlength=episodes)


def _all_log_weights(algorithm: Weighing, nets: Any, data: Data) -> RowWeights:
    n = len(data.offline.s)
    size = min(ROWS_AT_ONCE, n)
    found = []
    for first in range(0, n, size):
        # Past the end the last row stands in: one compiled program serves pieces of one size.
        rows = np.minimum(np.arange(first, first + size), n - 1)
        piece = Labelled(*(jnp.asarray(x[rows]) for x in data.offline))
        found.append(np.asarray(_log_weights(algorithm, nets, piece), np.float64))
    return np.concatenate(found)[:n]


@jax.jit
def _log_weights(algorithm: Any, nets: Any, rows: Labelled) -> Values:
    return algorithm.log_weights(nets, rows)
