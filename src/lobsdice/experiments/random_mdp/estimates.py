"""What the learners see of random MDPs: counts of sampled trajectories, made into estimates."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lobsdice.experiments.random_mdp import sampling
from lobsdice.experiments.random_mdp.mdps import (
    Instance,
    instances as make_instances,
    skeleton,
    spread,
)
from lobsdice.experiments.random_mdp.settings import Protocol

Floats = Float[np.ndarray, "..."]


class Problems(NamedTuple):
    """Random MDPs, one a row, and their estimates for each number of trajectories."""

    truth: Instance
    counts: Float[np.ndarray, "n offlines S A S"]
    d_offline: Float[np.ndarray, "n offlines S A"]
    d_expert: Float[np.ndarray, "n experts S S"]


def problems(seeds: list[int], beta: float, protocol: Protocol) -> Problems:
    """The MDPs of some seeds, with data. A seed's row depends on nothing but the seed."""
    sizes = (protocol.states, protocol.actions)
    skeletons = [skeleton(np.random.default_rng(seed), *sizes) for seed in seeds]
    truth = make_instances(skeletons, beta, gamma=protocol.gamma, optimality=protocol.optimality)
    level = round(beta * 1e9)  # a seed's data at one β is independent of its data at another
    rows = [
        _observe(np.random.default_rng([seed, level]), truth, row, protocol)
        for row, seed in enumerate(seeds)
    ]
    return Problems(truth, *map(np.stack, zip(*rows, strict=True)))


def _observe(rng: np.random.Generator, truth: Instance, row: int, protocol: Protocol):
    """Counts, d^I and d^E of one MDP, for each number of trajectories."""
    expert, successors = truth.expert[row], truth.successors[row]
    model = (successors, truth.probabilities[row])
    weights = sampling.discount_weights(protocol.gamma, protocol.horizon)

    def draw(policy: Floats, totals: tuple[int, ...]) -> sampling.Counts:
        groups = sampling.group_sizes(totals)
        return sampling.draw(rng, *model, policy, groups=groups, weights=weights).nested()

    offline = draw(np.full_like(expert, 1 / protocol.actions), protocol.offlines)
    shown = draw(expert, protocol.experts)
    counts = spread(successors, offline.plain)
    d_offline = offline.discounted.sum(-1) / np.array(protocol.offlines)[:, None, None]
    pairs = spread(successors, shown.discounted).sum(-2)
    return counts, d_offline, pairs / np.array(protocol.experts)[:, None, None]
