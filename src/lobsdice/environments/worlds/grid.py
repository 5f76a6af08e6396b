"""A walk on a grid with a goal and pits, which both end the episode.

The observation is the place (x, y). A step into a wall or over the border stays where it is. With
`slip`, that share of the steps goes in a random direction. `table` gives the exact probabilities.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from jaxtyping import Bool, Float32, Float64

from lobsdice.environments.worlds.raster import BLUE, GREEN, GREY, RED, Raster

#: The grid, the top row first: S a start, G the goal, X a pit, # a wall.
MAP = (
    "......X..G",
    "..#...X...",
    "..#....X..",
    "..####....",
    "......#X..",
    "...X..#...",
    "S.......#.",
    "SS.##X..#.",
    "SSS.......",
    "SSSS......",
)
SIZE = len(MAP)
#: The moves of the actions: up, right, down, left.
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))

Cell = tuple[int, int]
State = Float32[np.ndarray, "2"]


class Table(NamedTuple):
    """The exact Markov decision process of a grid; states are numbered."""

    observations: Float32[np.ndarray, "states 2"]
    transition: Float64[np.ndarray, "states actions states"]
    """The probability of each next state. A final state leads to itself."""
    final: Bool[np.ndarray, " states"]
    """True for the states that end the episode: the goal and the pits."""
    goal: Bool[np.ndarray, " states"]
    initial: Float64[np.ndarray, " states"]


def table(slip: float = 0.0) -> Table:
    """The transition probabilities, the final states and the initial distribution."""
    cells = _cells()
    kinds = np.array([_kind(cell) for cell in cells])
    final = (kinds == "G") | (kinds == "X")
    intended = np.eye(len(cells))[np.array(_successors())]
    intended[final] = np.eye(len(cells))[final, None]
    anywhere = intended.mean(axis=1, keepdims=True)
    starts = kinds == "S"
    return Table(
        observations=np.array(cells, np.float32),
        transition=(1 - slip) * intended + slip * anywhere,
        final=final,
        goal=kinds == "G",
        initial=starts / starts.sum(),
    )


class Grid(gymnasium.Env[State, np.int64]):
    """The grid as an environment. The reward is 1 at the goal and 0 elsewhere."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012

    def __init__(self, slip: float = 0.0, render_mode: str | None = None):
        self.slip, self.render_mode = slip, render_mode
        self.observation_space = Box(0, SIZE - 1, (2,), np.float32)
        self.action_space = Discrete(len(MOVES))
        exact = table()
        self._observations, self._successors = exact.observations, _successors()
        self._final, self._goal = exact.final.tolist(), exact.goal.tolist()
        self._starts = np.flatnonzero(exact.initial).tolist()
        self._state = self._starts[0]

    def table(self) -> Table:
        """The exact probabilities of this environment."""
        return table(self.slip)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self._state = self._starts[int(self.np_random.integers(len(self._starts)))]
        return self._observations[self._state].copy(), {"success": False}

    def step(self, action: Any):
        if self.slip and self.np_random.random() < self.slip:
            action = self.np_random.integers(len(MOVES))
        self._state = state = self._successors[self._state][int(action)]
        success = self._goal[state]
        observation = self._observations[state].copy()
        return observation, float(success), self._final[state], False, {"success": success}

    def place(self, observation: np.ndarray) -> bool:
        """Move to the cell nearest to an observation, to draw it; True if it is there."""
        away = np.abs(self._observations - observation).max(axis=1)
        self._state = int(away.argmin())
        return bool(away.min() < 0.5)

    def render(self) -> Any:
        picture = Raster(-0.5, -0.5, SIZE - 0.5, SIZE - 0.5)
        colours = {"#": GREY, "X": RED, "G": GREEN}
        for x in range(SIZE):
            for y in range(SIZE):
                if colour := colours.get(_kind((x, y))):
                    picture.rectangle(x - 0.5, y - 0.5, x + 0.5, y + 0.5, colour)
        x, y = self._observations[self._state].tolist()
        picture.disk(x, y, 0.3, BLUE)
        return picture.pixels


def _kind(cell: Cell) -> str:
    x, y = cell
    return MAP[SIZE - 1 - y][x]


@cache
def _cells() -> list[Cell]:
    """The cells that are no walls, in the order of their numbers."""
    return [(x, y) for y in range(SIZE) for x in range(SIZE) if _kind((x, y)) != "#"]


@cache
def _successors() -> list[list[int]]:
    """The number of the cell that each move leads to from each cell, without slips."""
    number = {cell: i for i, cell in enumerate(_cells())}
    return [[number.get((x + dx, y + dy), i) for dx, dy in MOVES] for (x, y), i in number.items()]


#: The demonstrator plans for this share of slips, and so keeps away from pits in every grid.
PLANNED_SLIP = 0.2
#: The demonstrator's discount, and the temperature of its choice between actions.
DISCOUNT, TEMPERATURE = 0.97, 0.01
#: Where the wrong goal is. There the controller walks against the border.
WRONG: Cell = (9, 0)
#: Share of random steps of the controllers that are not the demonstrator.
CARELESS = 0.1


@cache
def action_probabilities() -> Float64[np.ndarray, "states actions"]:
    """The demonstrator's policy: a softmax of the optimal action values of a slippery grid.

    It never walks against a wall. A cloned policy that takes the likeliest action would do so for
    ever.
    """
    exact = table(PLANNED_SLIP)
    values = np.zeros(exact.transition.shape[:2])
    for _ in range(500):
        value = np.where(exact.final, exact.goal, values.max(axis=1))
        values = DISCOUNT * exact.transition @ value
    moves = np.array(_successors()) != np.arange(len(values))[:, None]
    values = np.where(moves, values, -np.inf)
    weights = np.exp((values - values.max(axis=1, keepdims=True)) / TEMPERATURE)
    return weights / weights.sum(axis=1, keepdims=True)


@cache
def _choices() -> dict[Cell, list[float]]:
    """The demonstrator's cumulative probabilities in each cell."""
    return dict(zip(_cells(), action_probabilities().cumsum(axis=1).tolist(), strict=True))


def expert(observation: State, random: np.random.Generator) -> int:
    """Walk to the goal, and keep away from pits."""
    x, y = observation.tolist()
    chances, draw = _choices()[int(x), int(y)], random.random()
    return min(sum(chance < draw for chance in chances), len(MOVES) - 1)


def wrong(observation: State, random: np.random.Generator) -> int:
    """Walk to a wrong goal and stay there."""
    return _towards(WRONG, observation, random)


def hasty(observation: State, random: np.random.Generator) -> int:
    """Walk straight to the goal, whatever lies on the way."""
    return _towards((SIZE - 1, SIZE - 1), observation, random)


def _towards(cell: Cell, observation: State, random: np.random.Generator) -> int:
    if random.random() < CARELESS:
        return int(random.integers(len(MOVES)))
    x, y = observation.tolist()
    dx, dy = cell[0] - x, cell[1] - y
    if random.random() * (abs(dx) + abs(dy)) < abs(dx):
        return 1 if dx > 0 else 3
    return 0 if dy > 0 else 2


CONTROLLERS: Mapping[str, Callable[[State, np.random.Generator], int]] = {
    "expert": expert,
    "wrong": wrong,
    "hasty": hasty,
}
