"""The grids solved exactly, with counts from the very episodes that the networks learn from.

    exact           LobsDICE's problem, with expectations over the counted next states
    single-sample   the dual in which one sample of the next state replaces the expectation

All rows count alike, as networks draw them. Policies are evaluated with the grid's true
probabilities.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float64

from lobsdice import tabular
from lobsdice.console import progress
from lobsdice.data.episodes import Episodes
from lobsdice.environments.tasks.table import WORLDS, family
from lobsdice.environments.tasks.task import load
from lobsdice.environments.worlds.grid import Table, action_probabilities, table

METHODS = {"exact": tabular.lobsdice, "single-sample": tabular.single_sample}
GRID = "grid"
#: The share of the logs' distribution that is mixed into the demonstrations' in every grid: five
#: demonstrations lack pairs that a policy cannot avoid.
MIX = 1e-3

#: A grid, a seed, and what follows an end.
Case = tuple[str, int, str]
TablePolicy = Float64[np.ndarray, "states actions"]


def goal_probability(exact: Table, policy: TablePolicy, steps: int) -> float:
    """The probability that an episode of at most `steps` steps reaches the goal."""
    chain = np.einsum("sa,sat->st", policy, exact.transition)
    places = exact.initial
    for _ in range(steps):
        places = places @ chain
    return float(places[exact.goal].sum())


def numbered(episodes: Episodes, exact: Table) -> Episodes:
    """The episodes with the number of each state as the only observation."""
    number = {tuple(place): i for i, place in enumerate(exact.observations.tolist())}
    found = [[number[tuple(place)]] for place in episodes.observations.tolist()]
    return replace(episodes, observations=np.array(found, np.float32), observation_names=())


def table_of(world: str) -> Table:
    """The true probabilities of a grid."""
    return table(**WORLDS[world].options)


def demonstrator_probability(world: str) -> float:
    """The probability that the demonstrator of a grid reaches the goal."""
    return goal_probability(table_of(world), action_probabilities(), WORLDS[world].max_steps)


def grid_cases(worlds: Sequence[str], seeds: int, readings: Sequence[str]) -> list[Case]:
    """The grids among the worlds, with each seed and each reading of ends."""
    grids = [world for world in worlds if family(world) == GRID]
    return list(product(grids, range(seeds), readings))


def solve_grids(cases: Sequence[Case], *, gamma: float, alpha: float) -> list[dict[str, Any]]:
    """A row for each case and method."""
    rows = []
    with progress("Solving grids exactly", len(cases)) as advance:
        for case in cases:
            rows += _solve(*case, gamma=gamma, alpha=alpha)
            advance()
    return rows


def _solve(
    world: str, seed: int, reading: str, *, gamma: float, alpha: float
) -> list[dict[str, Any]]:
    task, exact = load(world, seed=seed), table_of(world)
    inputs = tabular.estimate(
        numbered(task.expert, exact),
        numbered(task.offline, exact),
        states=len(exact.final),
        gamma=gamma,
        terminal=reading,
        rows="uniform",
    )
    rows = []
    for name, method in METHODS.items():
        drawn = method(inputs.mdp, inputs.d_expert, inputs.d_offline, alpha=alpha, mix=MIX).policy
        row = {"method": name, "terminal": reading, "world": world, "seed": seed}
        for prefix, policy in (("", tabular.greedy(drawn)), ("drawn_", drawn)):
            chance = goal_probability(exact, policy, task.spec.max_steps)
            share = chance / demonstrator_probability(world)
            row |= {f"{prefix}success": f"{chance:.4f}", f"{prefix}share": f"{share:.4f}"}
        rows.append(row)
    return rows
