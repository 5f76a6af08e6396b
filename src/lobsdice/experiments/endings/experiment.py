"""The experiment from its choice to its files:

    scores.csv          every evaluation of every run; success rates and shares
    demonstrators.csv   the success rate of each world's demonstrator
    exact.csv           the grids, solved exactly
    summary.csv         the last policies in each world
    aggregate.csv       their means over worlds
    comparisons.csv     the lead of LobsDICE over each other arm
    tables.md           the shares of success to read
    endings.png, .svg   the figure

settings.json and arms.json keep results of different settings apart.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lobsdice.data.display import listed
from lobsdice.data.files import atomic, write_csv
from lobsdice.errors import LobsDICEError
from lobsdice.executors.job import Executor
from lobsdice.experiments.control.experiment import FAILURES
from lobsdice.experiments.control.trials import SCORES, failures
from lobsdice.experiments.endings import tables
from lobsdice.experiments.endings.exact import grid_cases, solve_grids
from lobsdice.experiments.endings.settings import LOBSDICE, Arm, Choice, Settings
from lobsdice.experiments.endings.trials import run_all
from lobsdice.experiments.endings.worlds import demonstrate, successes
from lobsdice.experiments.plots import common
from lobsdice.experiments.plots.endings import endings
from lobsdice.experiments.plots.learning import standard_error
from lobsdice.experiments.settings import claim
from lobsdice.training.folder import describe, read_rows
from lobsdice.training.settings import differences, flatten

DEMONSTRATORS, EXACT, ARMS = "demonstrators.csv", "exact.csv", "arms.json"
#: The demonstrator has this many times the episodes of an evaluation: all shares divide by it.
MORE = 10


def experiment(
    choice: Choice,
    settings: Settings,
    folder: Path,
    *,
    executor: Executor | None = None,
    exact: bool = True,
) -> list[Path]:
    """Train the runs that are missing, then write the tables and the figure.

    Fleets train where the executor says; without one, in this process. With `exact`, the grids are
    solved as well. Tables have all runs of the folder, also of earlier commands.
    """
    settings.check(choice.arms())
    claim(folder, settings.to_plain() | {"starts": "of each step"})
    arms = claim_arms(folder, choice.arms(), settings)
    demonstrators = measure_demonstrators(folder, choice.worlds, MORE * settings.episodes)
    run_all(choice.trials(), settings, folder, executor=executor)
    if exact:
        solve_missing(folder, choice, settings)
    rows = tables.in_order(read_rows(folder / SCORES), arms)
    write_csv(folder / SCORES, tables.with_shares(rows, demonstrators))
    figure = common.save(endings(folder / SCORES, folder / EXACT), folder / "endings")
    return [folder / SCORES, *write_tables(folder, demonstrators), *figure]


def claim_arms(folder: Path, arms: Sequence[Arm], settings: Settings) -> list[str]:
    """Write what each arm is to arms.json, and return the names of all that it has.

    Raise if the folder has runs of another arm of the same name.
    """
    path = folder / ARMS
    known = json.loads(path.read_text()) if path.exists() else {}
    for arm in arms:
        made = settings.algorithm(arm.algorithm, arm.set)
        facts = arm.to_plain() | {"hyperparameters": describe(made)} | arm.settings.others()
        both = [flatten(one) for one in (known.setdefault(arm.name, facts), facts)]
        if different := differences(both):
            names = listed([name.removeprefix("hyperparameters.") for name in different])
            raise LobsDICEError(
                f"{folder} holds runs of {arm.name} with other hyperparameters ({names}; see "
                f"{ARMS}); choose another folder, or remove this one"
            )
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(known, indent=2) + "\n")
    return list(known)


def measure_demonstrators(folder: Path, worlds: Sequence[str], episodes: int) -> dict[str, float]:
    """The success rates of the demonstrators; demonstrators.csv keeps the known ones."""
    path = folder / DEMONSTRATORS
    rows = _kept(path)
    known = {row["world"] for row in rows}
    for world in (world for world in dict.fromkeys(worlds) if world not in known):
        found = successes(world, demonstrate(world, episodes))
        error = standard_error(found.astype(float))
        rows.append({"world": world, "episodes": episodes, "success": found.mean()})
        rows[-1]["standard_error"] = f"{error:.4f}"
        write_csv(path, rows)
    return {row["world"]: float(row["success"]) for row in rows}


def solve_missing(folder: Path, choice: Choice, settings: Settings) -> None:
    """Solve the grids of the choice that exact.csv lacks."""
    rows = _kept(folder / EXACT)
    known = {(row["world"], int(row["seed"]), row["terminal"]) for row in rows}
    algorithm: Any = settings.algorithm(LOBSDICE)
    gamma, alpha = algorithm.gamma, algorithm.alpha
    readings = [reading for reading in choice.readings() if gamma < 1 or reading != "stay"]
    cases = grid_cases(choice.worlds, choice.seeds, readings)
    if new := solve_grids([c for c in cases if c not in known], gamma=gamma, alpha=alpha):
        write_csv(folder / EXACT, [*rows, *new])


def write_tables(folder: Path, demonstrators: dict[str, float]) -> list[Path]:
    """Write the tables of scores.csv, and failures.csv if any run failed."""
    rows, text = read_rows(folder / SCORES), folder / "tables.md"
    with atomic(text) as temporary:
        temporary.write_text(tables.markdown(rows, demonstrators, _kept(folder / EXACT)))
    paths = [
        write_csv(folder / "summary.csv", tables.summary(rows, demonstrators)),
        write_csv(folder / "aggregate.csv", tables.aggregate(rows)),
        write_csv(folder / "comparisons.csv", tables.comparisons(rows)),
        text,
    ]
    if found := failures(folder):
        table = [{"fleet": fleet, "why": why} for fleet, why in found.items()]
        return [*paths, write_csv(folder / FAILURES, table)]
    (folder / FAILURES).unlink(missing_ok=True)  # those fleets have since been trained
    return paths


def _kept(path: Path) -> tables.Table:
    return [dict(row) for row in common.read(path, set())] if path.exists() else []
