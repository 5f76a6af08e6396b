"""The data of the learners: counts of sampled trajectories, and the estimates made of them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lobsdice.experiments.random_mdp import sampling
from lobsdice.experiments.random_mdp.mdps import Instance, draw_skeleton, make_instances, spread
from lobsdice.experiments.random_mdp.settings import Settings

Floats = Float[np.ndarray, "..."]


class Problems(NamedTuple):
    """Random MDPs, one per row, and the estimates for each number of trajectories."""

    truth: Instance
    counts: Float[np.ndarray, "n offlines S A S"]
    d_offline: Float[np.ndarray, "n offlines S A"]
    d_expert: Float[np.ndarray, "n experts S S"]


def problems(seeds: list[int], beta: float, settings: Settings) -> Problems:
    """The MDPs of some seeds, with data. A row depends only on its seed, not on the other seeds."""
    sizes = (settings.states, settings.actions)
    skeletons = [draw_skeleton(np.random.default_rng(seed), *sizes) for seed in seeds]
    truth = make_instances(skeletons, beta, gamma=settings.gamma, optimality=settings.optimality)
    level = round(beta * 1e9)  # for independent data at different β
    rows = [
        _observe(np.random.default_rng([seed, level]), truth, row, settings)
        for row, seed in enumerate(seeds)
    ]
    return Problems(truth, *map(np.stack, zip(*rows, strict=True)))


def _observe(rng: np.random.Generator, truth: Instance, row: int, settings: Settings):
    """Counts, d^I and d^E of one MDP, for each number of trajectories."""
    expert, successors = truth.expert[row], truth.successors[row]
    model = (successors, truth.probabilities[row])
    weights = sampling.discount_weights(settings.gamma, settings.horizon)

    def sample(policy: Floats, totals: tuple[int, ...]) -> sampling.Counts:
        groups = sampling.group_sizes(totals)
        return sampling.draw_counts(rng, *model, policy, groups=groups, weights=weights).nested()

    offline = sample(np.full_like(expert, 1 / settings.actions), settings.offlines)
    shown = sample(expert, settings.experts)
    counts = spread(successors, offline.plain)
    d_offline = offline.discounted.sum(-1) / np.array(settings.offlines)[:, None, None]
    pairs = spread(successors, shown.discounted).sum(-2)
    return counts, d_offline, pairs / np.array(settings.experts)[:, None, None]
