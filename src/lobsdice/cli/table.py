"""The table of commands. To add one, write its dataclass and add a line here.

A command is a frozen dataclass, in a file of its own in `commands/`. Its fields are the options,
documented by the docstrings below them. Its own docstring is the help text and ends in an example.
Calling it does the work. The table names it as `module:class`, so that only the command that is
called gets imported.
"""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Command:
    target: str
    """`module:class` of the dataclass; the module is one of `lobsdice.cli.commands`."""
    summary: str
    audits: bool = False
    """True if NumPy's own threads are off: they are slower in audits and for small arrays."""
    algorithm: str | None = None
    """The algorithm, for a command of `lobsdice train` or `sweep`; the target is a function of its
    name."""

    def load(self) -> Any:
        """Import the dataclass."""
        module, _, name = self.target.partition(":")
        found = getattr(importlib.import_module(f"lobsdice.cli.commands.{module}"), name)
        return found if self.algorithm is None else found(self.algorithm)


@dataclass(frozen=True)
class Group:
    summary: str
    example: str
    list_members: "Callable[[], dict[str, Command | Group]]"

    @property
    def members(self) -> "dict[str, Command | Group]":
        """The commands and groups below this one, by name."""
        return self.list_members()


def _algorithms(target: str) -> dict[str, Command | Group]:
    """List one command for each algorithm; this imports JAX."""
    # Before NumPy is imported: our own threads search neighbours, and are faster than its.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from lobsdice.algorithms import ALGORITHMS

    return {
        name: Command(target, kind.summary, algorithm=name) for name, kind in ALGORITHMS.items()
    }


DATA: dict[str, Command | Group] = {
    "info": Command("info:Info", "Describe files of any format."),
    "convert": Command("convert:Convert", "Write a file in another format."),
    "split": Command("split:Split", "Split a file in two by episodes."),
    "join": Command("join:Join", "Join several files into one."),
    "check": Command("check:Check", "Show the training data that two files give."),
    "collect": Command("collect:Collect", "Record episodes of a built-in task."),
}

EXPERIMENTS: dict[str, Command | Group] = {
    "random-mdp": Command("random_mdp:RandomMDP", "All methods in random MDPs (figures 1 and 4)."),
    "circle": Command("circle:Circle", "States or state pairs on a ring (figure 3)."),
    "mujoco": Command("control:MuJoCo", "All algorithms in four environments (figure 2)."),
    "subsampled": Command("control:Subsampled", "Demonstrations with gaps (figure 5)."),
    "idm-error": Command("control:IDMError", "Inferred actions against true ones (figure 6)."),
    "fewer-demonstrations": Command(
        "control:FewerDemonstrations", "One, three and five demonstrations (figure 7)."
    ),
    "gamma-one": Command("control:GammaOne", "No discount (figure 8)."),
    "mixtures": Command("control:Mixtures", "Mixtures that are harder to learn from."),
    "endings": Command("endings:Endings", "Worlds that end in success or failure."),
    "methods": Command("methods:Methods", "All methods on all kinds of tasks, in one table."),
    "tuned": Command("tuned:Tuned", "One of three settings a method, chosen without returns."),
    "ablation": Command("ablation:Ablation", "The worth of each departure from the paper."),
}

COMMANDS: dict[str, Command | Group] = {
    "data": Group(
        "Describe, convert, split, check and collect recordings.",
        "lobsdice data info demos.npz",
        lambda: DATA,
    ),
    "audit": Command("audit:Audit", "Say whether recordings are worth training on.", audits=True),
    "train": Group(
        "Learn a policy from demonstrations and offline data.",
        "lobsdice train lobsdice --expert demos.npz --offline logs.npz --out runs/mine",
        lambda: _algorithms("train:train_command"),
    ),
    "sweep": Group(
        "Look for good hyperparameters.",
        "lobsdice sweep lobsdice --task reach --space alpha=0.01..1:log --out sweeps/reach",
        lambda: _algorithms("sweep:sweep_command"),
    ),
    "algorithms": Command("algorithms:Algorithms", "List the algorithms to train with."),
    "experiment": Group(
        "Make the paper's tables and figures.",
        "lobsdice experiment circle -o results",
        lambda: EXPERIMENTS,
    ),
    "resume": Command("resume:Resume", "Continue an interrupted training run.", audits=True),
    "evaluate": Command("evaluate:Evaluate", "Measure the returns of trained policies."),
    "rehearse": Command(
        "rehearse:Rehearse", "Try policies out in a world learned from the logs.", audits=True
    ),
    "select": Command("select:Select", "Choose a policy without an environment.", audits=True),
    "report": Command("report:Report", "Write one page about a run.", audits=True),
    "play": Command("play:Play", "Watch a policy, or record a video of it."),
    "export": Command("export:Export", "Write a policy as ONNX or plain NumPy."),
    "doctor": Command("doctor:Doctor", "Say what this machine has, and what is missing."),
}

ROOT = Group(
    "Offline learning from observation: demonstrations and logs in, a policy out.",
    "lobsdice data collect hopper --expert 5 --medium 20 --random 20 --out hopper",
    lambda: COMMANDS,
)
