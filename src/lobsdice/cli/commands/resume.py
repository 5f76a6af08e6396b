"""`lobsdice resume`."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from tyro.conf import Positional

from lobsdice import console
from lobsdice.cli.commands.train import log_options, train
from lobsdice.environments.gym import registered
from lobsdice.errors import LobsDICEError
from lobsdice.executors.options import Where
from lobsdice.training.folder import RunFolder
from lobsdice.training.recipe import Recipe, read_recipe


@dataclass(frozen=True)
class Resume:
    """Continue an interrupted training run. It ends with the same bits as an uninterrupted one.

    The run folder may come from someone else. So what it says does not import a module and does
    not log to another place: give these options of `lobsdice train` again.

    Example:
        lobsdice resume runs/hopper
        lobsdice resume runs/mine --env my_package:Mine-v0 --tensorboard
    """

    folder: Positional[Path]
    """Run folder that `lobsdice train` was writing."""
    env: str | None = None
    """Environment of the evaluations, if Gymnasium finds it in a module: `module:id`."""
    tensorboard: bool = False
    """Also write TensorBoard event files, to the folder `tensorboard` in the run folder."""
    wandb: str | None = None
    """Also log to this Weights & Biases project."""
    json: bool = False
    """Print the outcome as JSON."""
    quiet: bool = False
    """Print only warnings and the outcome: no progress, no messages."""
    where: Where = field(default_factory=Where)

    def __call__(self) -> None:
        with console.quiet(self.quiet):
            self.go_on()

    def go_on(self) -> None:
        """Train on, and print the outcome."""
        found = read_recipe(self.folder)
        self.check_environment(found)
        recipe = replace(
            found,
            tensorboard=self.tensorboard,
            wandb=self.wandb,
            json=self.json or found.json,
        )
        if log_options(found) != log_options(recipe):
            before = " ".join(map(str, log_options(found))) or "none"
            console.say(f"logs differ from those of `lobsdice train`, which had {before}")
        about = RunFolder(self.folder).config()["about"]
        train(recipe, about, resume=True, executor=self.where.executor(self.folder))

    def check_environment(self, recipe: Recipe) -> None:
        """Raise if a file alone would import a module, or if other evaluations would follow."""
        if self.env is not None and self.env != recipe.environment:
            raise LobsDICEError(
                f"{self.folder} is evaluated in {recipe.environment}, not in {self.env}; a resumed "
                "run keeps its environment"
            )
        if self.env is None and recipe.environment is not None:
            registered(recipe.environment)
