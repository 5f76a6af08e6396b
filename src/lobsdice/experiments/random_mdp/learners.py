"""The learners of the random-MDP experiment. Each solves all cells of several MDPs at once.

A cell is one number of expert trajectories with one number of offline trajectories.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from lobsdice import tabular
from lobsdice.experiments.random_mdp.estimates import Problems
from lobsdice.experiments.random_mdp.settings import Settings
from lobsdice.tabular import MDP, Clone, Solution

Floats = Float[np.ndarray, "..."]


class Cells(NamedTuple):
    """Learning problems, one per row."""

    mdp: MDP
    d_expert: Float[np.ndarray, "rows S S"]
    d_offline: Float[np.ndarray, "rows S A"]


class Outcome(NamedTuple):
    """The results of a learner, for each MDP, number of demonstrations and number of logs."""

    total_variation: Float[np.ndarray, "n experts offlines"]
    failed: Bool[np.ndarray, "n experts offlines"]
    unsupported: Float[np.ndarray, "n experts offlines"]


@dataclass(frozen=True)
class Curve:
    """A curve of the figure: a learner with its hyperparameters."""

    algorithm: str
    alpha: float | None
    learn: Callable[[Cells], Solution | Clone]
    sees_expert: bool = True


def curves(settings: Settings) -> list[Curve]:
    """The paper's learners, and LobsDICE again with a small α."""
    mix = {"mix": settings.mix}

    def lobsdice(alpha: float) -> Curve:
        return Curve("LobsDICE", alpha, lambda cells: tabular.lobsdice(*cells, alpha=alpha, **mix))

    def demodice(cells: Cells) -> Solution:
        return tabular.demodice_from_observation(*cells, alpha=settings.alpha, **mix)

    return [
        Curve("BC", None, lambda cells: tabular.bc(cells.mdp, cells.d_offline), sees_expert=False),
        Curve("SMODICE", None, lambda cells: tabular.smodice(*cells, **mix)),
        Curve("BCO", None, lambda cells: tabular.bco(*cells)),
        Curve("DemoDICEfO", settings.alpha, demodice),
        Curve("OPOLO", None, lambda cells: tabular.opolo(*cells, **mix)),
        lobsdice(settings.alpha),
        lobsdice(settings.small_alpha),
    ]


def score(curve: Curve, problems: Problems) -> Outcome:
    """Learn in every cell, and measure the total variation from the expert."""
    experts, offlines = problems.d_expert.shape[1], problems.counts.shape[1]
    used = experts if curve.sees_expert else 1
    learned = curve.learn(cells(problems, used))
    shape = (len(problems.counts), used, offlines)
    distance = evaluate(problems, learned.policy.reshape(*shape, *learned.policy.shape[1:]))
    solved = getattr(learned, "converged", np.ones(distance.size, dtype=bool)).reshape(shape)
    everywhere = (len(problems.counts), experts, offlines)
    return Outcome(
        np.broadcast_to(distance, everywhere),
        np.broadcast_to(~solved | ~np.isfinite(distance), everywhere),
        np.broadcast_to(learned.unsupported_expert_mass.reshape(shape), everywhere),
    )


def cells(problems: Problems, experts: int) -> Cells:
    """The cells of the first `experts` estimates of d^E with all offline data."""
    n, offlines, states, actions, _ = problems.counts.shape
    truth = problems.truth.mdp
    counts = problems.counts.reshape(-1, states, actions, states)
    mle = tabular.from_counts(counts, np.repeat(truth.initial, offlines, axis=0), truth.gamma)

    def pair(values: Floats, rank: int) -> Floats:
        whole = np.broadcast_to(values, (n, experts, offlines, *values.shape[-rank:]))
        return whole.reshape(-1, *values.shape[-rank:])

    def of_offline(values: Floats, rank: int) -> Floats:
        return pair(values.reshape(n, 1, offlines, *values.shape[-rank:]), rank)

    transition = of_offline(np.asarray(mle.transition), 3)
    mdp = MDP(transition, of_offline(mle.initial, 1), truth.gamma)
    d_expert = pair(problems.d_expert[:, :experts, None], 2)
    return Cells(mdp, d_expert, of_offline(problems.d_offline, 2))


def evaluate(problems: Problems, policy: Float[np.ndarray, "n E O S A"]) -> Floats:
    """The total variation between the true d(s, s') of each policy and of the expert."""
    truth = problems.truth.mdp
    transitions = np.asarray(truth.transition)

    def one(row: int) -> Floats:
        policies = policy[row].reshape(-1, *policy.shape[3:])
        transition = np.broadcast_to(transitions[row], (len(policies), *transitions.shape[1:]))
        initial = np.broadcast_to(truth.initial[row], (len(policies), truth.states))
        mdp = MDP(transition, initial, truth.gamma)
        pairs = tabular.pair_occupancy(mdp, tabular.occupancy(mdp, policies))
        expert = problems.truth.d_expert[row]
        return np.reshape(tabular.total_variation(pairs, expert), policy.shape[1:3])

    return np.stack([one(row) for row in range(len(policy))])
