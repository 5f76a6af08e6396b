"""`lobsdice data`: what is in recordings, and making one file from another."""

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from lobsdice import console
from lobsdice.cli import output
from lobsdice.data.episodes import Episodes, mixture
from lobsdice.data.formats import DEFAULTS, ReadOptions, describe, read, write
from lobsdice.data.prepare import Data, Initial, Terminal, prepare
from lobsdice.errors import LobsDICEError, plural

# tyro takes a list of arguments without a default to default to an empty one; ours must not.
Files = Annotated[
    tuple[str, ...], tyro.conf.arg(metavar="PATH...", help_behavior_hint="(required)")
]
Out = Annotated[Path, tyro.conf.arg(aliases=["-o"])]
Reading = OmitArgPrefixes[ReadOptions]


@dataclass(frozen=True)
class Preparation:
    """What a learner sees of the recordings; see docs/data.md."""

    initial: Initial = "first"
    """Which offline states stand for the initial ones: the first of each episode, or all."""
    terminal: Terminal = "keep"
    """What follows the last action of an episode that the environment ended: the true final state,
    an absorbing state, the first state of another episode, or nothing (the step is left out)."""
    subsample: int = 1
    """Keep only every n-th transition of the demonstrations."""
    allow_leak: bool = False
    """Go on even if demonstrated transitions occur among the labelled ones."""

    def __call__(
        self, expert: Episodes, offline: Episodes, labelled: Episodes | None = None
    ) -> Data:
        with console.waiting("Preparing the data"):
            return prepare(
                expert,
                offline,
                initial=self.initial,
                terminal=self.terminal,
                every=self.subsample,
                allow_leak=self.allow_leak,
                labelled=labelled,
            )


@dataclass(frozen=True)
class Info:
    """Say what is in recordings of any format: episodes, actions, returns, ranges of features.

    Example:
        lobsdice data info demos.npz
        lobsdice data info logs.csv --episode-column run --json
    """

    paths: Positional[Files]
    """Files, folders, or ids of Minari datasets in the local cache."""
    json: bool = False
    """Print JSON instead of tables."""
    read: Reading = DEFAULTS

    def run(self) -> None:
        _require(self.paths)
        reports = [_describe(path, self.read) for path in self.paths]
        if self.json:
            return output.print_json(reports)
        for report in reports:
            output.print_description(report)


@dataclass(frozen=True)
class Convert:
    """Write recordings in another format, which the suffix of the output names.

    Example:
        lobsdice data convert logs.csv logs.npz --episode-column run
        lobsdice data convert expert.hdf5 demos.npz --drop-actions
    """

    path: Annotated[Positional[str], tyro.conf.arg(metavar="IN")]
    """A file, a folder, or the id of a Minari dataset in the local cache."""
    out: Annotated[Positional[Path], tyro.conf.arg(metavar="OUT")]
    """The file to write."""
    drop_actions: bool = False
    """Leave the actions out: demonstrations as an observer sees them."""
    read: Reading = DEFAULTS

    def run(self) -> None:
        refuse_overwriting([self.path], [self.out])
        episodes = _read(self.path, self.read)
        _write(self.out, episodes.without_actions() if self.drop_actions else episodes)


@dataclass(frozen=True)
class Split:
    """Cut recordings in two that share no episode: the first ones, and the rest.

    Example:
        lobsdice data split expert.npz --first 5 --out demos.npz --rest others.npz --drop-actions
    """

    path: Annotated[Positional[str], tyro.conf.arg(metavar="IN")]
    """A file, a folder, or the id of a Minari dataset in the local cache."""
    first: int
    """How many episodes go to `--out`."""
    out: Out
    """The file for the first episodes."""
    rest: Path
    """The file for all other episodes."""
    drop_actions: bool = False
    """Leave the actions out of `--out`: demonstrations as an observer sees them."""
    read: Reading = DEFAULTS

    def run(self) -> None:
        refuse_overwriting([self.path], [self.out, self.rest])
        episodes = _read(self.path, self.read)
        if not 0 < self.first < len(episodes):
            raise LobsDICEError(
                f"{self.path}: cannot split off {self.first} of {len(episodes)} episodes; "
                "each part needs at least one"
            )
        first = episodes.first(self.first)
        _write(self.out, first.without_actions() if self.drop_actions else first)
        _write(self.rest, episodes.select(slice(self.first, None)))


@dataclass(frozen=True)
class Join:
    """Put recordings together into one, each episode labelled with the file that it comes from.

    Example:
        lobsdice data join others.npz medium.npz random.npz --out offline.npz
    """

    paths: Positional[Files]
    """Files, folders, or ids of Minari datasets in the local cache."""
    out: Out
    """The file to write."""
    read: Reading = DEFAULTS

    def run(self) -> None:
        refuse_overwriting(self.paths, [self.out])
        _write(self.out, read_together(self.paths, self.read))


@dataclass(frozen=True)
class Check:
    """Say what a learner would see of demonstrations and labelled recordings, or what is amiss.

    The widths of both must agree, and no demonstrated transition may occur in the labelled
    recordings: that would hand the learner the demonstrator's actions.

    Example:
        lobsdice data check --expert demos.npz --offline logs.npz
        lobsdice data check --expert demos.npz --offline medium.npz random.npz --json
    """

    expert: str
    """The demonstrations; actions in them are ignored."""
    offline: Files
    """One or more recordings with actions."""
    json: bool = False
    """Print JSON instead of a table."""
    preparation: OmitArgPrefixes[Preparation] = field(default_factory=Preparation)
    read: Reading = DEFAULTS

    def run(self) -> None:
        from lobsdice.cli.reports import of_data

        expert = read_unlabelled(self.expert, self.read)
        offline = read_together(self.offline, self.read)
        report = of_data(self.preparation(expert, offline))
        if self.json:
            return output.print_json(report)
        output.print_facts("What a learner sees", report)


@dataclass(frozen=True)
class Collect:
    """Record episodes of a built-in task: hopper, walker2d, halfcheetah or ant.

    Writes expert.npz, medium.npz and random.npz. The same seed gives the same files.

    Example:
        lobsdice data collect hopper --expert 105 --medium 500 --random 500 --out hopper
    """

    task: Annotated[Positional[str], tyro.conf.arg(metavar="TASK")]
    """hopper, walker2d, halfcheetah or ant."""
    out: Out
    """The folder to write to."""
    expert: int = 105
    """Episodes of the expert policy."""
    medium: int = 500
    """Episodes of a policy of middling quality."""
    random: int = 500
    """Episodes of uniformly random actions."""
    seed: int = 0
    """Episodes depend on nothing but this and their number."""
    workers: int | None = None
    """Processes to use (default: one a processor)."""
    json: bool = False
    """Print JSON instead of tables."""

    def run(self) -> None:
        from lobsdice.environments.tasks.collect import collect, save

        counts = {"expert": self.expert, "medium": self.medium, "random": self.random}
        collected = collect(self.task, counts, seed=self.seed, workers=self.workers)
        paths = save(self.out, collected)
        reports = [
            {"path": str(path), **describe(episodes)}
            for path, episodes in zip(paths, collected.values(), strict=True)
        ]
        if self.json:
            return output.print_json(reports)
        output.print_summary(reports)
        print(f"wrote {self.out}")


def read_together(paths: tuple[str, ...], options: ReadOptions) -> Episodes:
    """One file as it is; several as a mixture whose sources are named after the files."""
    _require(paths)
    if len(paths) == 1:
        return _read(paths[0], options)
    stems = [Path(path).stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else list(paths)
    return mixture({name: _read(path, options) for name, path in zip(names, paths, strict=True)})


def read_unlabelled(path: str, options: ReadOptions) -> Episodes:
    """A file that may lack actions; the options, which speak of some, are for all files."""
    return _read(path, options.unlabelled())


def _require(paths: tuple[str, ...]) -> None:
    if not paths:
        raise LobsDICEError("name at least one file; --help shows an example")


def _describe(path: str, options: ReadOptions) -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        episodes = _read(path, options)
    for warning in caught:
        warnings.warn(warning.message, stacklevel=2)
    texts = [str(warning.message) for warning in caught]
    return {"path": path, **describe(episodes), "warnings": texts}


def _read(path: str, options: ReadOptions) -> Episodes:
    with console.waiting(f"Reading {path}"):
        return read(path, options)


def _write(path: Path, episodes: Episodes) -> None:
    with console.waiting(f"Writing {path}"):
        write(path, episodes)
    counts = f"{plural(len(episodes), 'episode')}, {plural(episodes.steps, 'step')}"
    console.say(f"wrote {path}: {counts}")


def refuse_overwriting(inputs: tuple[str, ...] | list[str], outputs: list[Path]) -> None:
    """Raise if a command would write to a file that it reads, or twice to one."""
    taken = {Path(path).resolve() for path in inputs}
    for path in outputs:
        if path.resolve() in taken:
            raise LobsDICEError(f"{path}: named twice; every output needs a name of its own")
        taken.add(path.resolve())
