"""The fleet of a round: a run for each of its settings and seeds, trained up to a rung.

`python -m lobsdice.experiments.sweep.fleet FOLDER SETTINGS` is its program. At each rung the worst
settings are dropped. The others go on as a smaller fleet, in a folder of its own, from the states
that they had. Random numbers depend on seed and step alone, so each ends as if it had been alone.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from lobsdice import console
from lobsdice.errors import LobsDICEError
from lobsdice.executors.program import end_with_parent
from lobsdice.experiments.sweep.space import Setting, applied
from lobsdice.policies.policy import policy_name
from lobsdice.training.callbacks import Callback, Moment, StopTraining
from lobsdice.training.checkpoint import METRICS, Checkpoint
from lobsdice.training.engine import Member
from lobsdice.training.fleet import Fleet
from lobsdice.training.folder import CONFIG, RunFolder
from lobsdice.training.lock import locked
from lobsdice.training.loggers import Row
from lobsdice.training.recipe import Recipe
from lobsdice.training.train import configuration, train_fleet

#: The exit status of a program that has told an error in one sentence.
TOLD = 2


class Rung(NamedTuple):
    """Some settings of a round, the step that they train up to, and where they come from."""

    recipe: Recipe
    every: int
    """Steps between evaluations."""
    stop: int
    settings: Sequence[Setting]
    before: Path | None = None
    """The folder of the rung before."""
    kept: Sequence[int] = ()
    """The numbers that the settings have there."""

    def to_plain(self) -> dict[str, Any]:
        before = self.before and str(self.before.absolute())
        return {**self._asdict(), "recipe": self.recipe.to_plain(), "before": before}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> "Rung":
        before = plain["before"] and Path(plain["before"])
        return Rung(**{**plain, "recipe": Recipe.from_plain(plain["recipe"]), "before": before})


def train(folder: Path, rung: Rung) -> None:
    """Train a rung, or go on training it."""
    recipe = rung.recipe
    data = recipe.fleet(recipe.recordings()).datas
    fleet = _fleet(rung, rung.settings, data)
    evaluation = recipe.evaluation_settings()
    if rung.before is not None and not (folder / CONFIG).exists():
        with locked(folder):
            _cut(rung, fleet, folder)
    found = RunFolder(folder).rows() if (folder / CONFIG).exists() else []
    if found and found[-1]["step"] >= rung.stop:
        return  # a program before this one came so far
    train_fleet(
        fleet,
        every=rung.every,
        evaluate=recipe.evaluation(data[0]),
        out=folder,
        resume=(folder / CONFIG).exists(),
        callbacks=[stop_at(rung.stop)] if rung.stop < fleet.steps else [],
        evaluation=evaluation,
        devices=recipe.devices,
    )


def stop_at(step: int) -> Callback:
    """A callback that ends training at a step."""

    def stop(now: Moment) -> None:
        if now.step >= step:
            raise StopTraining(f"the rung of step {step} is reached")

    return stop


def _fleet(rung: Rung, settings: Sequence[Setting], datas: tuple) -> Fleet:
    recipes = [applied(rung.recipe, setting) for setting in settings]
    seeds = range(rung.recipe.seeds)
    members = (Member(r.algorithm, seed, 0, r.training) for r in recipes for seed in seeds)
    return Fleet(tuple(members), datas)


def _cut(rung: Rung, fleet: Fleet, folder: Path) -> None:
    """Begin a folder with the runs of the rung before that are kept, where these stopped."""
    assert rung.before is not None
    before, seeds = RunFolder(rung.before), rung.recipe.seeds
    count = len(before.config()["run"]["runs"]) // seeds
    runs = [seeds * i + seed for i in rung.kept for seed in range(seeds)]
    # The structure of the states is that of any fleet of as many runs.
    like = _fleet(rung, [rung.settings[0]] * count, fleet.datas)
    found = before.read_checkpoint(jax.eval_shape(like.begin))
    if found is None:
        raise LobsDICEError(f"{rung.before} has no checkpoint to go on from")
    state = jax.tree.map(lambda x: x[jax.numpy.array(runs)], found.state)
    run = configuration(fleet, rung.every, rung.recipe.evaluation_settings())
    begun = RunFolder(folder).begin(run, {}, resume=False)
    files = {METRICS: begun.write_rows(_renumbered(before.rows(), runs))}
    for new, old in enumerate(runs):
        for which in ("last", "best", "selected"):
            if policy_name(which, old) in found.files:
                files[policy_name(which, new)] = found.files[policy_name(which, old)]
    begun.write_checkpoint(Checkpoint(found.step, state, {}, files))


def _renumbered(rows: Sequence[Row], runs: Sequence[int]) -> list[Row]:
    numbers = {old: new for new, old in enumerate(runs)}
    kept = [row | {"run": numbers[row["run"]]} for row in rows if row["run"] in numbers]
    return sorted(kept, key=lambda row: (row["step"], row["run"]))


if __name__ == "__main__":
    end_with_parent()
    try:
        train(Path(sys.argv[1]), Rung.from_plain(json.loads(sys.argv[2])))
    except LobsDICEError as error:
        console.say(f"error: {error}")
        sys.exit(TOLD)
