"""The recipe of a fleet: all arguments of `lobsdice train`, in one dataclass.

A run folder keeps it in config.json, under `about.settings`. `lobsdice resume`, `report` and
`export` read it from there.
"""

import secrets
import shlex
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from lobsdice import console
from lobsdice.algorithms import ALGORITHMS, Algorithm
from lobsdice.data.audit.glance import glance
from lobsdice.data.context import describe_blur
from lobsdice.data.ends import describe_ends, end_warnings
from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import DEFAULTS, ReadOptions
from lobsdice.data.formats.words import words_of_all_files
from lobsdice.data.prepare import Data
from lobsdice.data.recordings import (
    Preparation,
    Recordings,
    read_both,
    read_together,
)
from lobsdice.data.starts import far_starts
from lobsdice.environments.evaluate import summaries, try_step
from lobsdice.environments.tasks.table import spec_of
from lobsdice.environments.tasks.task import load
from lobsdice.equations.terminal import Terminal
from lobsdice.errors import DataWarning, LobsDICEError, plural
from lobsdice.training.callbacks import Callback
from lobsdice.training.closing import closing
from lobsdice.training.engine import Member, Options
from lobsdice.training.fleet import Fleet, check_seeds
from lobsdice.training.folder import RunFolder
from lobsdice.training.loggers import Logger, TensorBoard, WandB
from lobsdice.training.recorder import Evaluate
from lobsdice.training.settings import as_words, misfit, wrong_field
from lobsdice.training.train import Run, train_fleet

#: Steps of logs that are larger than memory, about, that are looked at before training.
LOOKED_AT = 1_000_000
#: The fields that name files.
FILES = ("expert", "offline", "labelled")
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
    expert: tuple[str, ...] = ()
    """One or more files or folders of the demonstrations. Actions in them are ignored."""
    offline: tuple[str, ...] = ()
    """One or more files or folders of the offline data: logged episodes with actions."""
    labelled: tuple[str, ...] = ()
    """Files of demonstrations with actions, for the algorithms that need them. Without them they
    use the actions in the files of the demonstrations."""
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
    50 evaluations. Training starts sooner with a multiple of 8: others need a second program."""
    episodes: int = 10
    """Episodes per evaluation."""
    devices: int | None = None
    """Number of GPUs (or other devices of JAX) to divide the runs among. Without it, all of this
    machine, but not more than there are runs."""
    keep: Literal["error", "selected"] = "error"
    """The policy that is kept as `selected-<run>`: of the step with the least error on the
    demonstrations (error), or of the step that `lobsdice select` prefers (selected). The latter
    learns the world of the logs first, and rehearses every checkpoint in it."""
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

    def train(self, about: Mapping[str, Any], *, resume: bool = False, audit: bool = False) -> Run:
        """Train all runs, or go on training them; `about` goes to the folder's config.json.

        With `audit`, a line says whether the files fit each other.
        """
        loggers, whole = self.loggers(about), self.recordings()
        fleet, recordings = self.fleet(whole), self.in_memory(whole)
        warned = self.tell_ends(recordings)
        if audit and self.task is None:  # the data of a task is known
            self.tell_audit(recordings, warned)
        run = train_fleet(
            fleet,
            every=self.every,
            evaluate=self.evaluation(fleet.datas[0]),
            out=self.out,
            resume=resume,
            loggers=loggers,
            callbacks=self.callbacks(recordings),
            about=about,
            evaluation=self.evaluation_settings(),
            devices=self.devices,
        )
        self.tell_closing(run, whole)
        return run

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
        if (self.task is None) == (not self.expert and not self.offline):
            raise LobsDICEError("name either --task or both --expert and --offline")
        if self.task is not None:
            return self._task_recordings(self.task)
        if not self.expert or not self.offline:
            raise LobsDICEError("both --expert and --offline are needed")
        with words_of_all_files():
            expert, offline = read_both(self.expert, self.offline, self.read)
            return Recordings(expert, offline, self._read_labelled(expert))

    def in_memory(self, recordings: Recordings) -> Recordings:
        """The recordings, with as much of logs on the disk as memory surely holds."""
        if self.preparation.pool is None:
            return recordings
        return recordings._replace(offline=recordings.offline.spread(LOOKED_AT))

    def files(self) -> list[str]:
        """Return the files of the offline data and of the demonstrations that still exist."""
        return [path for path in (*self.offline, *self.expert) if Path(path).exists()]

    def fleet(self, recordings: Recordings) -> Fleet:
        """Return one run per random seed, on the prepared recordings."""
        check_seeds(self.seeds)
        data = self._prepare(*recordings)
        if (said := describe_blur(data.blur, data.normaliser.names)) and self._blurs:
            console.say(f"features: {said}")
        members = (Member(self.algorithm, seed, 0, self.training) for seed in range(self.seeds))
        return Fleet(tuple(members), (data,))

    def tell_audit(self, recordings: Recordings, warned: int) -> None:
        """Say in one line what a quick audit finds, and which command shows all of it."""
        with console.waiting("Comparing demonstrations and logs"):
            found = glance(recordings.expert, recordings.offline)
        said = found.sentence(warned, leak_allowed=self.preparation.allow_leak)
        console.say(f"audit: {said} (more: {self.audit_line()})")
        if far := far_starts(recordings.expert, recordings.offline):
            console.say(f"starts: {far}")

    def audit_line(self) -> str:
        """Return the command that audits the files."""
        files = ["--expert", *self.expert, "--offline", *self.offline]
        return shlex.join(["lobsdice", "audit", *files, *as_words(self.read)])

    def tell_closing(self, run: Run, recordings: Recordings) -> None:
        """Say what the runs learned from and how they ended, and which command comes next."""
        if not run.rows:
            return
        with console.waiting("Looking at the weights"):
            failures, folder = list(run.failures), RunFolder(self.out)
            said, failed = closing(run.fleet, run.rows, failures, recordings, folder)
        report, select = (
            shlex.join(["lobsdice", word, str(self.out)]) for word in ("report", "select")
        )
        then = self.audit_line() if failed and self.expert else report
        # Without an environment, nobody has seen the policy act.
        trial = "" if self.environment else f"; before deploying: {select}"
        console.say(f"{said}; next: {then}{trial}")

    @property
    def _blurs(self) -> bool:
        return getattr(self.algorithm, "blur", 0) > 0

    def tell_ends(self, recordings: Recordings) -> int:
        """Say how the episodes end and what training makes of it; return the number of warnings."""
        expert, offline, _ = recordings
        with console.waiting("Comparing the ends of episodes"):
            found = end_warnings(expert, offline)
        for warning in found:
            warnings.warn(warning, DataWarning, stacklevel=2)
        said = describe_ends(expert, offline)
        if expert.terminated.any() or offline.terminated.any():
            said += f"; {self._what_follows()}"
        console.say(f"ends: {said}")
        return len(found)

    def _what_follows(self) -> str:
        if self.algorithm.after_an_end is not None:
            return f"{type(self.algorithm).__name__}: {self.algorithm.after_an_end}"
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
        try_step(name, data.state_size, data.action_space)
        return lambda policies: summaries(policies, name, episodes=self.episodes)

    def evaluation_settings(self) -> dict[str, Any] | None:
        """Return all that evaluations depend on; None without an environment."""
        name = self.environment
        return {"environment": name, "episodes": self.episodes} if name else None

    def callbacks(self, recordings: Recordings) -> list[Callback]:
        """Return the callback that rehearses checkpoints, if it was asked for."""
        if self.keep != "selected":
            return []
        from lobsdice.training.rehearsal.checkpoints import rehearse_checkpoints

        return [rehearse_checkpoints(self.out, recordings.expert, recordings.offline)]

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
        files = {name: [_absolute(path) for path in getattr(self, name)] for name in FILES}
        name = next(name for name, kind in ALGORITHMS.items() if type(self.algorithm) is kind)
        mixture = list(self._counts(self.task).values() if self.task else self.mixture)
        return asdict(self) | files | {"mixture": mixture, "out": str(self.out), "name": name}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> "Recipe":
        """Return the recipe that `to_plain` wrote; keys that are not known are ignored."""
        try:
            if wrong := misfit(plain, GROUPS):
                raise ValueError(wrong)
            if plain["name"] not in ALGORITHMS:
                raise LobsDICEError(
                    f"there is no algorithm {plain['name']!r} here; if it is your own, import the "
                    "module that registers it first"
                )
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
        if self.labelled:
            return read_together(self.labelled, self.read)
        if not self.algorithm.needs_labels:
            return None
        if expert.actions is None:
            raise LobsDICEError(
                f"{type(self.algorithm).__name__} learns from demonstrations with actions, and "
                f"{' '.join(self.expert)} has none; name some with --labelled"
            )
        return expert


def read_recipe(folder: Path) -> Recipe:
    """Return the recipe that a run folder was made by; `out` is where the folder is now."""
    settings = (RunFolder(folder).config()["about"] or {}).get("settings")
    if not isinstance(settings, dict):
        raise LobsDICEError(
            f"{folder} was not made by `lobsdice train`, and does not name its recordings; in "
            "Python, `ld.train(..., resume=True)` continues it and `ld.select` ranks it by its "
            "error; a rehearsal needs a run of `lobsdice train`"
        )
    return Recipe.from_plain(settings | {"out": str(folder)})


def _upgraded(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings as this version writes them.

    In earlier versions `terminal` was an option of the data. Such a run can be read, but a run
    folder refuses to resume it. They also had one file of demonstrations, as a text.
    """
    plain = {**plain, **{name: _listed(plain.get(name)) for name in FILES}}
    if "terminal" not in plain["preparation"]:
        return plain
    preparation = {k: x for k, x in plain["preparation"].items() if k != "terminal"}
    training = {**plain["training"], "terminal": "keep"}
    return {**plain, "preparation": preparation, "training": training}


def _listed(files: Any) -> Any:
    return [] if files is None else [files] if isinstance(files, str) else files


def _absolute(path: str) -> str:
    pattern = any(sign in path for sign in "*?[")
    return str(Path(path).resolve()) if pattern or Path(path).exists() else path


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
