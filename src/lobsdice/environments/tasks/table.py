"""Every fact about the built-in tasks, in one table."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lobsdice.data.spaces import Box
from lobsdice.errors import LobsDICEError

#: The sources of episodes, those with the longest first. The seeds depend on this order.
SOURCES = ("expert", "medium", "random")

#: Written by `python -m lobsdice.environments.tasks.references`.
REFERENCES = Path(__file__).with_name("references.json")


@dataclass(frozen=True)
class Reference:
    """The measured return of one source's episodes."""

    mean: float
    standard_error: float
    episodes: int


@dataclass(frozen=True)
class Spec:
    """One built-in task: its environment and the behaviour policies of its data."""

    name: str
    environment: str
    """The Gymnasium id."""
    state_size: int
    action_size: int
    noise: Mapping[str, float]
    """For each shipped policy, the factor of its standard deviation when it collects data."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment."""
    bound: float = 1.0
    """Actions lie in [-bound, bound], in every column."""
    max_steps: int = 1000
    """An episode that lasts this long is truncated."""

    @property
    def action_space(self) -> Box:
        return Box((-self.bound,) * self.action_size, (self.bound,) * self.action_size)

    def reference(self, source: str) -> Reference:
        """The measured return of this task's `expert` or `random` episodes."""
        return Reference(**_references()[self.name][source])

    def normalised(self, returns):
        """100 (return − random) / (expert − random), for a return or an array of them."""
        expert, random = self.reference("expert").mean, self.reference("random").mean
        return 100 * ((returns - random) / (expert - random))


TASKS: Mapping[str, Spec] = {
    spec.name: spec
    for spec in (
        Spec("hopper", "Hopper-v5", 11, 3, {"expert": 0.5, "medium": 1.0}),
        Spec("walker2d", "Walker2d-v5", 17, 6, {"expert": 1.0, "medium": 1.0}),
        Spec("halfcheetah", "HalfCheetah-v5", 17, 6, {"expert": 1.0, "medium": 1.0}),
        Spec(
            "ant",
            "Ant-v5",
            27,
            8,
            # The expert acts without noise. Its returns vary all the same: see its reference.
            {"expert": 0.0, "medium": 1.0},
            # Without the contact forces there are 27 numbers, not 105.
            {"include_cfrc_ext_in_observation": False},
        ),
    )
}


def spec_of(task: str) -> Spec:
    """The row of a task in the table."""
    if task not in TASKS:
        raise LobsDICEError(f"there is no task {task!r}; the tasks are {', '.join(TASKS)}")
    return TASKS[task]


def task_of(environment: str) -> Spec | None:
    """The built-in task of this name or Gymnasium id, if there is one."""
    return next((s for s in TASKS.values() if environment in (s.name, s.environment)), None)


@cache
def _references() -> dict[str, dict[str, dict[str, Any]]]:
    return json.loads(REFERENCES.read_text())["returns"]
