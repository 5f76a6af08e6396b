"""`lobsdice resume`."""

from dataclasses import dataclass, replace
from pathlib import Path

from tyro.conf import Positional

from lobsdice.cli.commands.train import train
from lobsdice.training.folder import RunFolder
from lobsdice.training.recipe import read_recipe


@dataclass(frozen=True)
class Resume:
    """Continue an interrupted training run. It ends with the same bits as an uninterrupted one.

    Example:
        lobsdice resume runs/hopper
    """

    folder: Positional[Path]
    """Run folder that `lobsdice train` was writing."""
    json: bool = False
    """Print the outcome as JSON."""

    def __call__(self) -> None:
        recipe = read_recipe(self.folder)
        about = RunFolder(self.folder).config()["about"]
        train(replace(recipe, json=self.json or recipe.json), about, resume=True)
