"""The recipe of a fleet: all arguments of `lobsdice train`, in one dataclass.

A run folder keeps it in config.json, under `about.settings`. `lobsdice resume`, `report` and
`export` read it from there.
"""

import secrets
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from lobsdice import console
from lobsdice.algorithms import ALGORITHMS, Algorithm
from lobsdice.data.ends import describe_ends, end_warnings
from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import DEFAULTS, ReadOptions
from lobsdice.data.prepare import Data
from lobsdice.data.recordings import (
    Preparation,
    Recordings,
    read_one,
    read_together,
    read_unlabelled,
)
from lobsdice.environments.evaluate import rehearse, summaries
from lobsdice.environments.tasks.table import spec_of
from lobsdice.environments.tasks.task import load
from lobsdice.errors import DataWarning, LobsDICEError, plural
from lobsdice.tabular.ends import Terminal
from lobsdice.training.engine import Member, Options
from lobsdice.training.fleet import Fleet, check_seeds
from lobsdice.training.folder import RunFolder
from lobsdice.training.loggers import Logger, TensorBoard, WandB
from lobsdice.training.recorder import Evaluate
from lobsdice.training.settings import misfit, wrong_field
from lobsdice.training.train import Run, train_fleet

#: The parts of the settings that are groups.
GROUPS = dict.fromkeys(("training", "preparation", "read", "algorithm"), dict) | {"name": str}
#: What follows an end, in words.
AFTER_AN_END: Mapping[Terminal, str] = {
    "restart": "after an end a new start follows",
    "stay": "after an end its state repeats for ever",
    "keep": "nothing follows an end, so that ends are avoided",
}


#: The paper's settings of the loop and of the data, where the defaults are others.
PUBLISHED_TRAINING = {"average": 0.0, "hold_out": False}
PUBLISHED_PREPARATION = {"initial": "all"}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The data, the algorithm and all settings of a fleet of runs.

    The docstrings of the fields are the help texts of `lobsdice train`.
    """

    out: Path
    """Run folder to write."""
    expert: str | None = None
    """File of the demonstrations. Actions in it are ignored."""
    offline: tuple[str, ...] = ()
    """One or more files of the offline data: logged episodes with actions."""
    labelled: str | None = None
    """File of demonstrations with actions, for the algorithms that need them. Without it they use
    the actions in the file of the demonstrations."""
    task: str | None = None
    """Built-in task to train on instead of files: hopper, walker2d, halfcheetah, ant; or one that
    ends in success or failure: grid, reach, pointmaze, cartpole, each also with noise, such as
    reach-noisy."""
    demonstrations: int = 5
    """Number of demonstrations, for a built-in task."""
    mixture: tuple[int, ...] = ()
    """Numbers of episodes in the offline data, for a built-in task: one for each of its sources,
    which are expert, medium and random for hopper. Without it, the task's own numbers."""
    env: str | None = None
    """Gymnasium id of an environment to evaluate policies in during training. A built-in task has
    its own. For `module:id` the module is imported first: an installed one, or one in a folder that
    $PYTHONPATH names."""
    seeds: int = 1
    """Number of runs, with the random seeds 0, 1, 2 and so on. All train in one program."""
    every: int | None = None
    """Gradient steps between evaluations, which write checkpoints too. Without it there are about
    50 evaluations."""
    episodes: int = 10
    """Episodes per evaluation."""
    tensorboard: bool = False
    """Also write TensorBoard event files, to the folder `tensorboard` in the run folder."""
    wandb: str | None = None
    """Also log to this Weights & Biases project."""
    json: bool = False
    """Print the outcome as JSON."""
    training: Options = field(default_factory=Options)
    preparation: Preparation = field(default_factory=Preparation)
    read: ReadOptions = DEFAULTS
    algorithm: Algorithm

    def train(self, about: Mapping[str, Any], *, resume: bool = False) -> Run:
        """Train all runs, or go on training them; `about` goes to the folder's config.json."""
        loggers, recordings = self.loggers(about), self.recordings()
        fleet = self.fleet(recordings)
        self.tell_ends(recordings)
        return train_fleet(
            fleet,
            every=self.every,
            evaluate=self.evaluation(fleet.datas[0]),
            out=self.out,
            resume=resume,
            loggers=loggers,
            about=about,
            evaluation=self.evaluation_settings(),
        )

    def as_published(self) -> "Recipe":
        """Return the recipe with the paper's settings where it has the defaults."""
        return replace(
            self,
            algorithm=_with(self.algorithm, self.algorithm.published),
            training=_with(self.training, PUBLISHED_TRAINING),
            preparation=_with(self.preparation, PUBLISHED_PREPARATION),
        )

    def about(self, command: list[str]) -> dict[str, Any]:
        """Return the part `about` of config.json, for a new fleet that this command starts."""
        return {"command": command, "settings": self.to_plain(), "identity": secrets.token_hex(4)}

    def recordings(self) -> Recordings:
        """Read the files, or load the built-in task."""
        if (self.task is None) == (self.expert is None and not self.offline):
            raise LobsDICEError("name either --task or both --expert and --offline")
        if self.task is not None:
            return self._task_recordings(self.task)
        if self.expert is None or not self.offline:
            raise LobsDICEError("both --expert and --offline are needed")
        expert = read_unlabelled(self.expert, self.read)
        offline = read_together(self.offline, self.read)
        return Recordings(expert, offline, self._read_labelled(expert))

    def files(self) -> list[str]:
        """Return the files of the offline data and of the demonstrations that still exist."""
        named = [*self.offline, *([self.expert] if self.expert else [])]
        return [path for path in named if Path(path).exists()]

    def fleet(self, recordings: Recordings) -> Fleet:
        """Return one run per random seed, on the prepared recordings."""
        check_seeds(self.seeds)
        data = self._prepare(*recordings)
        members = (Member(self.algorithm, seed, 0, self.training) for seed in range(self.seeds))
        return Fleet(tuple(members), (data,))

    def tell_ends(self, recordings: Recordings) -> None:
        """Say how the episodes end and what training makes of it; warn of probable mistakes."""
        expert, offline, _ = recordings
        for warning in end_warnings(expert, offline):
            warnings.warn(warning, DataWarning, stacklevel=2)
        said = describe_ends(expert, offline)
        if expert.terminated.any() or offline.terminated.any():
            said += f"; {self._what_follows()}"
        console.say(f"ends: {said}")

    def _what_follows(self) -> str:
        if not self.algorithm.goes_on:
            return f"{type(self.algorithm).__name__} does not look at what follows an end"
        terminal = self.training.terminal
        return f"{AFTER_AN_END[terminal]} (--terminal {terminal})"

    @property
    def environment(self) -> str | None:
        """The built-in task or Gymnasium id that policies are evaluated in."""
        return self.task or self.env

    def evaluation(self, data: Data) -> Evaluate | None:
        """Return the function that evaluates policies; None without an environment."""
        name = self.environment
        if name is None:
            return None
        # A wrong environment is an error now, and not at the first evaluation.
        rehearse(name, data.state_size, data.action_space)
        return lambda policies: summaries(policies, name, episodes=self.episodes)

    def evaluation_settings(self) -> dict[str, Any] | None:
        """Return all that evaluations depend on; None without an environment."""
        name = self.environment
        return {"environment": name, "episodes": self.episodes} if name else None

    def loggers(self, about: Mapping[str, Any]) -> list[Logger]:
        """Return the loggers that were asked for."""
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

    def to_plain(self) -> dict[str, Any]:
        """Return the recipe as JSON can hold it, with absolute paths of files."""
        # Training may be resumed from another folder. The id of a Minari dataset stays as it is.
        files = {
            "expert": self.expert and _absolute(self.expert),
            "labelled": self.labelled and _absolute(self.labelled),
            "offline": [_absolute(path) for path in self.offline],
        }
        name = next(name for name, kind in ALGORITHMS.items() if type(self.algorithm) is kind)
        mixture = list(self._counts(self.task).values() if self.task else self.mixture)
        return asdict(self) | files | {"mixture": mixture, "out": str(self.out), "name": name}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> "Recipe":
        """Return the recipe that `to_plain` wrote; keys that are not known are ignored."""
        try:
            if wrong := misfit(plain, GROUPS):
                raise ValueError(wrong)
            plain = _upgraded(plain)
            kinds = {
                "algorithm": ALGORITHMS[plain["name"]],
                "training": Options,
                "preparation": Preparation,
                "read": ReadOptions,
            }
            nested: Any = {key: _made(kind, plain[key]) for key, kind in kinds.items()}
            known = {f.name for f in fields(Recipe)} & set(plain)
            flat = {key: _with_tuples(plain)[key] for key in known}
            _refuse_wrong(Recipe, {k: x for k, x in flat.items() if k not in kinds})
            return Recipe(**flat | nested | {"out": Path(plain["out"])})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LobsDICEError(
                f"the settings were written by another version of lobsdice: {error}"
            ) from error

    def _prepare(self, *recordings: Any) -> Data:
        # As in `Task.data`: what a task with few states shares by chance is no leak.
        by_chance = self.task is not None and spec_of(self.task).finite
        allow_leak = by_chance or self.preparation.allow_leak
        return replace(self.preparation, allow_leak=allow_leak)(*recordings)

    def _counts(self, task: str) -> Mapping[str, int]:
        """Return the number of offline episodes of each source of a built-in task."""
        spec = spec_of(task)
        if not self.mixture:
            return spec.offline
        if len(self.mixture) != len(spec.sources):
            raise LobsDICEError(
                f"--mixture has {plural(len(self.mixture), 'number')}, but {task} has "
                f"{len(spec.sources)} sources of episodes: {', '.join(spec.sources)}"
            )
        return dict(zip(spec.sources, self.mixture, strict=True))

    def _task_recordings(self, name: str) -> Recordings:
        task = load(name, expert=self.demonstrations, offline=self._counts(name))
        labelled = task.labelled if self.algorithm.needs_labels else None
        return Recordings(task.expert, task.offline, labelled)

    def _read_labelled(self, expert: Episodes) -> Episodes | None:
        """Read the file of labelled demonstrations; without one, take the expert's if needed."""
        if self.labelled is not None:
            return read_one(self.labelled, self.read)
        if not self.algorithm.needs_labels:
            return None
        if expert.actions is None:
            raise LobsDICEError(
                f"{type(self.algorithm).__name__} learns from demonstrations with actions, and "
                f"{self.expert} has none; name some with --labelled"
            )
        return expert


def read_recipe(folder: Path) -> Recipe:
    """Return the recipe that a run folder was made by; `out` is where the folder is now."""
    settings = (RunFolder(folder).config()["about"] or {}).get("settings")
    if not isinstance(settings, dict):
        raise LobsDICEError(f"{folder} was not made by `lobsdice train`")
    return Recipe.from_plain(settings | {"out": str(folder)})


def _upgraded(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings as this version writes them.

    In earlier versions `terminal` was an option of the data. Such a run can be read, but a run
    folder refuses to resume it.
    """
    if "terminal" not in plain["preparation"]:
        return plain
    preparation = {k: x for k, x in plain["preparation"].items() if k != "terminal"}
    training = {**plain["training"], "terminal": "keep"}
    return {**plain, "preparation": preparation, "training": training}


def _absolute(path: str) -> str:
    return str(Path(path).resolve()) if Path(path).exists() else path


def _made(kind: Any, plain: Mapping[str, Any]) -> Any:
    """Return a dataclass from plain data; raise a ValueError if a value has the wrong type."""
    _refuse_wrong(kind, plain)
    return kind(**_with_tuples(plain))


def _refuse_wrong(kind: type, plain: Mapping[str, Any]) -> None:
    if wrong := wrong_field(kind, plain):
        raise ValueError(wrong)


def _with_tuples(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the tuples that JSON turned into lists."""
    return {key: tuple(x) if isinstance(x, list) else x for key, x in plain.items()}


Settings = TypeVar("Settings", bound=Any)


def _with(settings: Settings, published: Mapping[str, Any]) -> Settings:
    """The settings with published values in the place of defaults."""
    defaults = {f.name: f.default for f in fields(settings)}
    kept = {n: x for n, x in published.items() if getattr(settings, n) == defaults[n]}
    return replace(settings, **kept)
