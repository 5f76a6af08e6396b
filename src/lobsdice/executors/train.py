"""The fleet of `lobsdice train` as a job; as a program, it trains that fleet.

`python -m lobsdice.executors.train FOLDER SETTINGS` trains the recipe in SETTINGS, or goes on if
FOLDER has a checkpoint. SETTINGS come from the user's command line, not from a file.
"""

import base64
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lobsdice import console
from lobsdice.data.files import cache_folder
from lobsdice.environments.tasks.table import spec_of
from lobsdice.environments.tasks.task import cached_files
from lobsdice.errors import LobsDICEError
from lobsdice.executors.job import Executor, Job, killed, make_job
from lobsdice.executors.program import end_with_parent
from lobsdice.executors.watch import run_all
from lobsdice.training.folder import CONFIG
from lobsdice.training.recipe import Recipe

PROGRAM = ("-P", "-m", "lobsdice.executors.train")
#: The exit status of a program that has told an error in one sentence.
TOLD = 2


def train_on(executor: Executor, recipe: Recipe, about: Mapping[str, Any]) -> None:
    """Train the fleet of a recipe where the executor says; raise if it did not come to its end."""
    job = job_of(recipe, about)
    (status,) = run_all(executor, [job], 1, lambda folder, status: None).values()
    if status == 0:
        return
    if killed(status):
        raise LobsDICEError(
            f"the training in {recipe.out} was ended from outside; `lobsdice resume {recipe.out}` "
            f"goes on from its checkpoint (log: {job.log})"
        )
    said = job.log.read_text(errors="replace").strip().splitlines()
    why = said[-1].removeprefix("error: ") if said else f"exit status {status}"
    raise LobsDICEError(f"{recipe.out} failed: {why} (log: {job.log})")


def job_of(recipe: Recipe, about: Mapping[str, Any]) -> Job:
    """The job that trains the fleet of a recipe."""
    data = recipe_files(recipe)
    # A machine with copies of the files has other paths of them; those in `about` shall stay.
    kept = base64.b64encode(json.dumps(about).encode()).decode()
    return make_job(
        PROGRAM,
        recipe.out,
        {"recipe": recipe.to_plain(), "about": kept},
        steps=recipe.training.steps,
        data=data,
        variables={"LOBSDICE_CACHE": str(cache_folder().absolute())},
    )


def recipe_files(recipe: Recipe) -> list[Path]:
    """The files that the runs of a recipe read."""
    if recipe.task is not None:
        recipe.recordings()  # collects what is missing, here and once
        return cached_files(spec_of(recipe.task), seed=0)
    named = (*recipe.expert, *recipe.offline, *recipe.labelled)
    return [file for name in named for file in files_below(Path(name))]


def files_below(path: Path) -> list[Path]:
    """A file, or all files in a folder; none for the id of a dataset."""
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else []


def main(folder: Path, settings: Mapping[str, Any]) -> int:
    """Train the fleet of a folder, and return the exit status."""
    recipe = replace(Recipe.from_plain(settings["recipe"]), out=folder)
    about = json.loads(base64.b64decode(settings["about"]))
    try:
        recipe.train(about, resume=(folder / CONFIG).exists())
    except LobsDICEError as error:
        console.say(f"error: {error}")
        return TOLD
    return 0


if __name__ == "__main__":
    end_with_parent()
    sys.exit(main(Path(sys.argv[1]), json.loads(sys.argv[2])))
