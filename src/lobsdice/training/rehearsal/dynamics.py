"""An ensemble that learns how the logs' world moves, in the training loop of all algorithms.

Each member maximises the likelihood of the movements s' - s in the logs, as a mixture of Gaussians
whose parameters depend on s and a (Bishop, 1994; ensembles as in Chua et al., 2018). It also learns
to tell final states from the others. Members differ in their first weights and in their batches.

Ends may be a tiny part of the states, such as a dock. The first layer of a fresh network bends only
at the mean of the logs, and takes many steps to bend elsewhere. So the network of ends begins with
bends at final states.
"""

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from lobsdice.algorithms.base import Defaults, Metrics, at_least, hyperparameters
from lobsdice.algorithms.batch import Batch, beside
from lobsdice.algorithms.networks import MLP, lacking
from lobsdice.console import progress
from lobsdice.data.prepare import Data
from lobsdice.data.rows import column_range
from lobsdice.data.spaces import ActionSpace
from lobsdice.environments.learned import LOG_STD_BOUNDS, MARGIN, Layers, LearnedWorld, States
from lobsdice.errors import LobsDICEError
from lobsdice.training.diagnostics import infer_actions
from lobsdice.training.draws import held_out_rows
from lobsdice.training.engine import Member, Options, State
from lobsdice.training.fleet import Fleet, iterate
from lobsdice.training.folder import fingerprint
from lobsdice.training.rehearsal.quality import ends_of, measure

#: Networks in an ensemble.
MEMBERS = 5
#: Steps and batch size of learning. Each step of each member sees a batch of rows.
STEPS, BATCH = 6000, 256
#: The mass of an end in a batch, where a step has 1: ends are few and must be learned all the same.
END_MASS = 10.0
#: The first weights of the network of ends are so many times those of others.
STEEP = 10.0
#: One end in so many is held out. With fewer ends none is.
APART = 16
#: Members may differ by this many times what 99 % of the held-out rows have.
SLACK = 2.0
#: Logged rows among which the actions of demonstrations are looked for, at most.
MOST_ROWS = 200_000
#: Movements of constant features have at least this scale.
LEAST = 1e-4


class World(NamedTuple):
    """The networks of one member. The averages of their weights are kept."""

    move: MLP
    end: MLP


class Nets(NamedTuple):
    policy: World
    """Not a policy, but what the training loop averages."""


@hyperparameters
class Dynamics(Defaults):
    """A member of the ensemble, in the form of an algorithm. It is not among `ALGORITHMS`."""

    goes_on: ClassVar[bool] = True

    rate: float = at_least(0, default=1e-3)
    end_rate: float = at_least(0, default=3e-3)
    """The learning rate of the network of ends."""
    gamma: float = END_MASS / (1 + END_MASS)
    """With this value a row of an end has the mass `END_MASS` in a batch."""
    width: int = at_least(1, default=128)
    parts: int = at_least(1, default=3)
    """Gaussians in a mixture."""
    move_scale: tuple[float, ...] = ()

    def init(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> Nets:
        k_move, k_end = jax.random.split(key)
        outputs, inputs = self.parts * (1 + 2 * state_size), state_size + space.feature_size
        move = MLP(k_move, inputs, self.width, self.width, outputs)
        return Nets(World(move, MLP(k_end, state_size, self.width, self.width, 1)))

    def loss(
        self, nets: Nets, batch: Batch, key: Key[Array, ""], *, penalised: int
    ) -> tuple[Float[Array, ""], Metrics]:
        del key, penalised
        s, a, s_next = batch.offline
        final = lacking(a)
        world, seen = nets.policy, beside(s, self._features(a, world_inputs(nets) - s.shape[1]))
        moved = (s_next - s) / jnp.asarray(self.move_scale)[None]
        likelihood = jnp.where(final, 0.0, log_likelihood(world.move(seen), moved))
        move_loss = -jnp.sum(likelihood) / jnp.maximum(jnp.sum(~final), 1)
        logit = world.end(s)[:, 0]
        end_loss = jnp.mean(jnp.where(final, jax.nn.softplus(-logit), jax.nn.softplus(logit)))
        return move_loss + end_loss, {"move_loss": move_loss, "end_loss": end_loss}

    def rates(self, step: Int[Array, ""]) -> Any:
        return Nets(World(self.rate, self.end_rate))  # pyright: ignore[reportArgumentType]

    @staticmethod
    def _features(a: Any, size: int) -> Float[Array, "n features"]:
        if jnp.issubdtype(a.dtype, jnp.integer):
            return jax.nn.one_hot(a, size)
        return jnp.where(jnp.isnan(a), 0.0, a)


def world_inputs(nets: Nets) -> int:
    """The number of inputs of the network of movements."""
    return nets.policy.move.weights[0].shape[-2]


def log_likelihood(
    output: Float[Array, "n outputs"], moved: Float[Array, "n state"]
) -> Float[Array, " n"]:
    """log p(s' - s | s, a) of the mixtures that a network's output stands for."""
    size = moved.shape[1]
    parts = output.shape[1] // (1 + 2 * size)
    log_share = jax.nn.log_softmax(output[:, :parts])
    mean, log_std = jnp.split(output[:, parts:].reshape(-1, parts, 2 * size), 2, axis=-1)
    log_std = jnp.clip(log_std, *LOG_STD_BOUNDS)
    z = (jnp.expand_dims(moved, 1) - mean) * jnp.exp(-log_std)
    gaussian = jnp.sum(-0.5 * (z**2 + jnp.log(2 * jnp.pi)) - log_std, axis=-1)
    return jax.nn.logsumexp(log_share + gaussian, axis=-1)


def learn_world(
    data: Data,
    *,
    members: int = MEMBERS,
    steps: int = STEPS,
    batch_size: int = BATCH,
    width: int = 128,
) -> LearnedWorld:
    """Learn the world of some logs.

    One row and one end in sixteen are held out, to measure the errors.
    """
    learned, ends = without_some_ends(data)
    moved = data.offline.s_next - data.offline.s
    scale = moved.std(axis=0) + LEAST
    dynamics = Dynamics(width=width, move_scale=tuple(map(float, scale)))
    options = Options(
        steps=steps, batch_size=batch_size, average=0.99, cooldown=0.5, terminal="stay"
    )
    fleet = Fleet(tuple(Member(dynamics, i, 0, options) for i in range(members)), (learned,))
    with progress("Learning the logs' world", steps) as advance:
        begun = with_bends(fleet.begin(), ends_of(learned))
        *_, last = iterate(fleet, every=steps, begin=(0, begun), on_steps=advance)
    for stopped in fleet.stops(last).values():
        raise LobsDICEError(f"the world of the logs could not be learned: a network {stopped}")
    nets = jax.device_get(last.state.average)
    world = _assemble(data, nets, scale, mass_of_ends(data, learned))
    return with_quality(world, data, ends)


def without_some_ends(data: Data) -> tuple[Data, States]:
    """The data without each sixteenth end of the logs, and the final states of these."""
    ends = data.ends
    if ends is None:
        return data, data.init[:0]
    apart = np.arange(1, len(ends.offline) + 1) % APART == 0
    rest = ends._replace(offline=ends.offline[~apart], source=ends.source[~apart])
    return replace(data, ends=rest), ends.offline[apart]


def with_bends(state: State, finals: States) -> State:
    """The state of all members with networks of ends that are steep, and bend at final states.

    Each unit of the first layer is 0 at a final state, drawn at random. Outputs keep their size.
    """
    if not len(finals):
        return state
    net = state.nets.policy.end
    first = STEEP * net.weights[0]
    members, _, width = first.shape
    at = finals[np.random.default_rng(0).integers(len(finals), size=(members, width))]
    bias = -jnp.einsum("msw,mws->mw", first, at)
    bent = eqx.tree_at(
        lambda x: (x.weights[0], x.biases[0], x.weights[-1]),
        net,
        (first, bias, net.weights[-1] / STEEP),
    )
    world = state.nets.policy._replace(end=bent)
    return state._replace(nets=Nets(world), average=world)


def mass_of_ends(data: Data, learned: Data) -> float:
    """The factor by which the learner sees too many ends: held-out ends are none of them."""
    known, seen = (x.end_weight * len(ends_of(x)) for x in (data, learned))
    return END_MASS * seen / known if known else END_MASS


def _assemble(data: Data, nets: World, scale: np.ndarray, end_mass: float) -> LearnedWorld:
    def layers(net: MLP) -> Layers:
        return tuple(zip(map(_plain, net.weights), map(_plain, net.biases), strict=True))

    low, high = column_range(data.offline.observations)
    slack = MARGIN * (high - low)
    raw = data.init * data.normaliser.scale + data.normaliser.mean
    shown, actions = infer_actions(data, every=-(-data.offline.size // MOST_ROWS))
    return LearnedWorld(
        move=layers(nets.move),
        end=layers(nets.end),
        normaliser=data.normaliser,
        action_space=data.action_space,
        move_scale=_plain(scale),
        low=_plain(low - slack),
        high=_plain(high + slack),
        starts=_plain(raw[:: max(1, len(raw) // 1000)]),
        demonstrated=_plain(np.asarray(shown) * data.normaliser.scale + data.normaliser.mean),
        inferred=_plain(np.asarray(actions).reshape(len(actions), -1)),
        end_mass=end_mass,
        limit=np.inf,
        about={},
    )


def with_quality(world: LearnedWorld, data: Data, ends: States) -> LearnedWorld:
    """The world with its errors on held-out rows, and the limit of disagreement that they give."""
    rows = held_out_rows(data.offline.size)
    held_out = len(rows) < data.offline.size
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), 4096)).astype(int)]
    found, disagreement = measure(world, data, rows, ends)
    limit = SLACK * float(np.quantile(disagreement, 0.99)) + LEAST
    quality = found | {"held_out": held_out}
    about = {"fingerprint": fingerprint(data), "rows": data.offline.size, "quality": quality}
    return replace(world, limit=limit, about=about)


def _plain(x: Any) -> np.ndarray:
    return np.asarray(x, np.float32)
