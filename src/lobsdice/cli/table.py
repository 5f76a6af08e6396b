"""The table of commands. To add one, write its dataclass and add a line here.

A command is a frozen dataclass: its fields, documented by the docstrings below them (which say
`(default: ...)` where the value does not speak for itself), are the options; its own docstring,
which ends in an example, is the help text; its `run()` does the work. It is named by
`module:class`, so that only the command that is called gets imported.
"""

from dataclasses import dataclass

from lobsdice.catalogue import CATALOGUE


@dataclass(frozen=True)
class Command:
    target: str
    """`module:class` of the dataclass; the module is one of `lobsdice.cli.commands`."""
    summary: str
    audits: bool = False
    """An audit's own threads are faster than those of each matrix product, which are then off."""


@dataclass(frozen=True)
class Group:
    summary: str
    example: str
    members: "dict[str, Command | Group]"


DATA = Group(
    "Describe, convert, split, check and collect recordings.",
    "lobsdice data info demos.npz",
    {
        "info": Command("data:Info", "Say what is in a file, whatever its format."),
        "convert": Command("data:Convert", "Write a file in another format."),
        "split": Command("data:Split", "Cut a file in two by episodes."),
        "join": Command("data:Join", "Put files together into one."),
        "check": Command("data:Check", "Say what a learner would see of two files."),
        "collect": Command("data:Collect", "Record episodes of a built-in task."),
    },
)

TRAIN = Group(
    "Learn a policy from demonstrations and labelled recordings.",
    "lobsdice train lobsdice --expert demos.npz --offline logs.npz --out runs/mine",
    {name: Command(f"train:Train_{name}", entry.summary) for name, entry in CATALOGUE.items()},
)

EXPERIMENT = Group(
    "Make the paper's tables and figures.",
    "lobsdice experiment circle -o results",
    {
        "random-mdp": Command(
            "experiment:RandomMDP",
            "All methods in random MDPs (figures 1 and 4).",
        ),
        "circle": Command("experiment:Circle", "States or state pairs on a ring (figure 3)."),
        "mujoco": Command(
            "experiment:MuJoCo",
            "All algorithms in four environments (figure 2).",
        ),
        "subsampled": Command("experiment:Subsampled", "Demonstrations with gaps (figure 5)."),
        "idm-error": Command(
            "experiment:IDMError",
            "Inferred actions against true ones (figure 6).",
        ),
        "fewer-demonstrations": Command(
            "experiment:FewerDemonstrations",
            "One, three, five of them (figure 7).",
        ),
        "gamma-one": Command("experiment:GammaOne", "No discount (figure 8)."),
    },
)

ROOT = Group(
    "Offline learning from observation: demonstrations and labelled logs in, a policy out.",
    "lobsdice data collect hopper --expert 5 --medium 20 --random 20 --out hopper",
    {
        "data": DATA,
        "audit": Command(
            "audit:Audit",
            "Say whether recordings are worth training on.",
            audits=True,
        ),
        "train": TRAIN,
        "algorithms": Command("algorithms:Algorithms", "List what there is to train with."),
        "experiment": EXPERIMENT,
        "resume": Command("train:Resume", "Go on with an interrupted run."),
        "evaluate": Command("train:Evaluate", "Measure trained policies' returns."),
        "select": Command("select:Select", "Rank runs without an environment."),
        "report": Command(
            "report:Report",
            "Write what came of a run to one page.",
            audits=True,
        ),
        "play": Command("play:Play", "Watch a policy, or record a video of it."),
        "export": Command("export:Export", "Write a policy as ONNX or plain NumPy."),
    },
)
