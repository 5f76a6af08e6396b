"""The built-in tasks: environments, the policies their data comes from, and the data itself."""

from lobsdice.tasks.collect import collect, save
from lobsdice.tasks.environment import make, returns, rollout
from lobsdice.tasks.policy import policy_of
from lobsdice.tasks.table import SOURCES, TASKS, Spec, spec_of
from lobsdice.tasks.task import Task, load

__all__ = [
    "SOURCES",
    "TASKS",
    "Spec",
    "Task",
    "collect",
    "load",
    "make",
    "policy_of",
    "returns",
    "rollout",
    "save",
    "spec_of",
]
