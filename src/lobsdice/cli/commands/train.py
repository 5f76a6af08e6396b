"""`lobsdice train`, `resume` and `evaluate`."""

import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import tyro
from tyro.conf import OmitArgPrefixes, Positional

from lobsdice import console
from lobsdice.algorithms import ALGORITHMS, Algorithm
from lobsdice.cli import output
from lobsdice.cli.arguments import Which, environment_of, policies_of
from lobsdice.cli.commands.data import Out, Preparation, Reading, read_together, read_unlabelled
from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import DEFAULTS, ReadOptions
from lobsdice.data.prepare import Data
from lobsdice.environments.evaluate import summaries
from lobsdice.environments.gym import make
from lobsdice.environments.tasks.table import SOURCES
from lobsdice.environments.tasks.task import Task, load
from lobsdice.errors import LobsDICEError
from lobsdice.training.engine import Member, Options
from lobsdice.training.folder import RunFolder
from lobsdice.training.loggers import Logger, TensorBoard, WandB
from lobsdice.training.train import Evaluate as Evaluation
from lobsdice.training.train import Fleet, Run, train_fleet

Some = Annotated[tuple[str, ...], tyro.conf.arg(metavar="PATH...")]


class Recordings(NamedTuple):
    """What a run learns from, before it is prepared."""

    expert: Episodes
    offline: Episodes
    labelled: Episodes | None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that a training command can be told, except the algorithm's hyperparameters."""

    out: Out
    """The folder to write to."""
    expert: str | None = None
    """The demonstrations; actions in them are ignored."""
    offline: Some = ()
    """One or more recordings with actions."""
    labelled: str | None = None
    """Demonstrations whose actions may be used, for the algorithms that need some (default, for
    those: the actions in the file of the demonstrations)."""
    task: str | None = None
    """Instead of files, a built-in task: hopper, walker2d, halfcheetah or ant."""
    demonstrations: int = 5
    """Demonstrations of a built-in task."""
    mixture: tuple[int, int, int] = (100, 500, 500)
    """Offline episodes of a built-in task: expert, medium, random."""
    env: str | None = None
    """A Gymnasium id, to evaluate in on the way; built-in tasks bring their own."""
    seeds: int = 1
    """Runs with the seeds 0, 1, ..., all in one program."""
    every: int | None = None
    """Steps between evaluations and checkpoints (default: about a fiftieth of all)."""
    episodes: int = 10
    """Episodes of an evaluation."""
    tensorboard: bool = False
    """Write event files for TensorBoard, too, to the folder `tensorboard` in the run's folder."""
    wandb: str | None = None
    """Log to this project of Weights & Biases, too."""
    json: bool = False
    """Print the outcome as JSON."""
    training: OmitArgPrefixes[Options] = field(default_factory=Options)
    preparation: OmitArgPrefixes[Preparation] = field(default_factory=Preparation)
    read: Reading = DEFAULTS

    def run(self) -> None:
        RunFolder(self.out).refuse_existing()  # at once, and not after the data was read
        about = {"command": ["lobsdice", *sys.argv[1:]], "settings": to_plain(self)}
        self.execute(about | {"identity": secrets.token_hex(4)}, resume=False)

    def execute(self, about: Mapping[str, Any], *, resume: bool) -> None:
        """Train, or go on training; `about` is what the run's folder says of it."""
        loggers = self.loggers(about)
        fleet = self.fleet(self.preparation(*self.recordings()))
        evaluation = self.evaluation()
        with hint_on_interrupt(self.out):
            run = train_fleet(
                fleet,
                every=self.every,
                evaluate=evaluation,
                out=self.out,
                resume=resume,
                loggers=loggers,
                about=about,
            )
        report = outcome(self.out, run)
        output.print_json(report) if self.json else print_outcome(report)

    def loggers(self, about: Mapping[str, Any]) -> list[Logger]:
        """Those that were asked for."""
        found: list[Logger] = []
        if self.tensorboard:
            found.append(TensorBoard(self.out / "tensorboard"))
        if self.wandb is not None:
            identity, config = about["identity"], about["settings"]
            name, folder = self.out.resolve().name, self.out
            found.append(
                WandB(self.wandb, name=name, identity=identity, folder=folder, config=config)
            )
        return found

    def fleet(self, data: Data) -> Fleet:
        """All runs, with what they learn from."""
        seeds = range(self.seeds)
        members = tuple(Member(self._algorithm, seed, 0, self.training) for seed in seeds)
        return Fleet(members, (data,))

    def recordings(self) -> Recordings:
        """What to learn from."""
        if (self.task is None) == (self.expert is None and not self.offline):
            raise LobsDICEError("name either --task or both --expert and --offline")
        if self.task is not None:
            task = self.load_task(self.task)
            return Recordings(
                task.expert, task.offline, task.labelled if self.needs_labels else None
            )
        if self.expert is None or not self.offline:
            raise LobsDICEError("both --expert and --offline are needed")
        expert = read_unlabelled(self.expert, self.read)
        offline = read_together(self.offline, self.read)
        return Recordings(expert, offline, self.read_labelled(expert))

    def evaluation(self) -> Evaluation | None:
        """How to evaluate, if that can be done."""
        name = self.task or self.env
        if name is None:
            return None
        make(name)  # a wrong name is an error now, and not at the first evaluation
        return lambda policies: summaries(policies, name, episodes=self.episodes)

    @property
    def _algorithm(self) -> Algorithm:
        return vars(self)["algorithm"]  # the one field that differs between the commands

    @property
    def needs_labels(self) -> bool:
        return self._algorithm.needs_labels

    def read_labelled(self, expert: Episodes) -> Episodes | None:
        """Demonstrations with actions: those named, or else the expert's if there is a need."""
        if self.labelled is not None:
            return read_together((self.labelled,), self.read)
        if not self.needs_labels:
            return None
        if expert.actions is None:
            raise LobsDICEError(
                f"{type(self._algorithm).__name__} learns from demonstrations with actions, and "
                f"{self.expert} has none; name some with --labelled"
            )
        return expert

    def load_task(self, name: str) -> Task:
        counts: dict[str, int] = dict(zip(SOURCES, self.mixture, strict=True))
        return load(name, expert=self.demonstrations, offline=counts)


def _command(name: str) -> type[Settings]:
    kind = ALGORITHMS[name]
    command = make_dataclass(
        f"Train_{name}",
        [("algorithm", OmitArgPrefixes[kind], field(default_factory=kind))],
        bases=(Settings,),
        frozen=True,
        kw_only=True,
    )
    command.__doc__ = f"""Train {kind.__name__}: demonstrations and recordings in, a policy out.

    Example:
        lobsdice train {name} --expert demos.npz --offline logs.npz --out runs/mine
        lobsdice train {name} --task hopper --seeds 5 --steps 100000 --out runs/hopper
    """
    return command


COMMANDS = {name: _command(name) for name in ALGORITHMS}


def __getattr__(name: str) -> Any:
    """The command of each algorithm, as `Train_<name>`."""
    if name.startswith("Train_") and name[6:] in COMMANDS:
        return COMMANDS[name[6:]]
    raise AttributeError(name)


@dataclass(frozen=True)
class Resume:
    """Go on with a training run that was interrupted; it ends as if it had not been.

    Example:
        lobsdice resume runs/hopper
    """

    folder: Positional[Path]
    """The folder that `lobsdice train` was writing to."""
    json: bool = False
    """Print the outcome as JSON."""

    def run(self) -> None:
        about = RunFolder(self.folder).config()["about"]
        if "settings" not in about:
            raise LobsDICEError(f"{self.folder} was not made by `lobsdice train`")
        asked = {"out": str(self.folder), "json": self.json or about["settings"].get("json", False)}
        from_plain(about["settings"] | asked).execute(about, resume=True)


@dataclass(frozen=True)
class Evaluate:
    """Measure the return of trained policies in an environment.

    Example:
        lobsdice evaluate runs/hopper --episodes 20
        lobsdice evaluate runs/mine --env Hopper-v5 --stochastic --json
    """

    path: Positional[Path]
    """The folder of a run, or the file of a policy."""
    env: str | None = None
    """A Gymnasium id or a built-in task (default: what the run was evaluated in)."""
    episodes: int = 20
    """Episodes of each policy."""
    seed: int = 0
    """Episodes depend on nothing but this and the policy."""
    which: Which = "last"
    """Policies after the last step, with the best return, or with the least offline error."""
    stochastic: bool = False
    """Draw actions at random as the policy says, instead of taking the likeliest."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> None:
        policies = policies_of(self.path, self.which)
        env = self.env or environment_of(self.path)
        with console.waiting("Evaluating"):
            found = summaries(
                list(policies.values()),
                env,
                episodes=self.episodes,
                seed=self.seed,
                stochastic=self.stochastic,
            )
        facts = ({"run": run, "episodes": self.episodes} for run in policies)
        reports = [fact | report for fact, report in zip(facts, found, strict=True)]
        if self.json:
            return output.print_json(reports)
        for report in reports:
            output.print_facts(f"{self.path}, {self.which} policy, in {env}", report)


@contextmanager
def hint_on_interrupt(out: Path) -> Iterator[None]:
    """On Ctrl-C, say how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        console.say(f"to go on from the last checkpoint: lobsdice resume {out}")
        raise


def outcome(out: Path, run: Run) -> dict[str, Any]:
    """What a run ended with, and where its policies lie."""
    last = run.rows[-1]["step"] if run.rows else 0
    rows = [row for row in run.rows if row["step"] == last]
    return {
        "steps": last,
        "policies": str(out / "policies"),
        "runs": rows,
        "failures": list(run.failures.values()),
    }


def print_outcome(report: Mapping[str, Any]) -> None:
    """The same in a few lines."""
    for name in ("return", "score"):
        values = [row[name] for row in report["runs"] if name in row]
        if values:
            spread = f" ± {np.std(values):.1f} over {len(values)} seeds" if len(values) > 1 else ""
            print(f"{name} after {report['steps']} steps: {np.mean(values):.1f}{spread}")
    for failure in report["failures"]:
        print(f"stopped early: {failure}")
    print(f"policies: {report['policies']}")


def to_plain(settings: Settings) -> dict[str, Any]:
    """Settings as JSON can hold them."""
    name = next(name for name, command in COMMANDS.items() if isinstance(settings, command))
    # A run may be resumed from another working folder. What is no file may be a data set's name.
    files = {
        "expert": settings.expert and _absolute(settings.expert),
        "labelled": settings.labelled and _absolute(settings.labelled),
        "offline": [_absolute(path) for path in settings.offline],
    }
    return asdict(settings) | files | {"out": str(settings.out), "name": name}


def _absolute(path: str) -> str:
    return str(Path(path).resolve()) if Path(path).exists() else path


def from_plain(plain: Mapping[str, Any]) -> Settings:
    """The inverse of `to_plain`."""
    try:
        return _from_plain(dict(plain))
    except (KeyError, TypeError) as error:
        raise LobsDICEError(f"another version of lobsdice has other settings: {error}") from error


def _from_plain(plain: dict[str, Any]) -> Settings:
    name = plain.pop("name")
    nested = {
        "algorithm": ALGORITHMS[name],
        "training": Options,
        "preparation": Preparation,
        "read": ReadOptions,
    }
    for key, kind in nested.items():
        plain[key] = kind(
            **{k: tuple(v) if isinstance(v, list) else v for k, v in plain[key].items()}
        )
    known = {f.name for f in fields(COMMANDS[name])}
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in plain.items() if k in known}
    command: Any = COMMANDS[name]
    return command(**values | {"out": Path(plain["out"])})
