"""One of three settings for each method, chosen without returns, in worlds that end:

    endings/        all runs, with their policies (`experiment endings`)
    worlds/         the world that was learned from the logs of each task and seed
    measures.csv    the measures of each policy that decide, and its share of success
    tuned.csv       the mean success of the chosen policies, of the defaults, and of all
    gains.csv       the gain of the rehearsal's choice over the other ones, paired by task and seed
    tables.md       the means to read
    settings.json   the settings of the learned worlds

The choice is that of `lobsdice select`. Values are per cent of the demonstrator's success rate.
docs/experiments/methods.md has the protocol.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from lobsdice import console
from lobsdice.data.files import atomic, write_csv
from lobsdice.environments.learned import LearnedWorld, load_world
from lobsdice.environments.tasks.task import load
from lobsdice.executors.job import Executor
from lobsdice.experiments import statistics
from lobsdice.experiments.comparisons import ALL, cells, compare, over_tasks, seeds_of, stack
from lobsdice.experiments.control.grid import check_names
from lobsdice.experiments.control.trials import SCORES, folders
from lobsdice.experiments.endings import experiment as endings
from lobsdice.experiments.endings.fleet import read_trials
from lobsdice.experiments.endings.settings import Choice, Settings
from lobsdice.experiments.settings import claim
from lobsdice.policies.policy import Policy
from lobsdice.training.folder import RunFolder, read_rows
from lobsdice.training.rehearsal.dynamics import STEPS
from lobsdice.training.rehearsal.folders import Recorded
from lobsdice.training.rehearsal.rehearse import rehearse_policies
from lobsdice.training.rehearsal.rollouts import EPISODES
from lobsdice.training.select import CRITERION, REHEARSAL

MEASURES, WORLDS = "measures.csv", "worlds"
#: The settings of each method; the first one is the default.
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "lobsdice": ("ratio_penalty=0.01", "ratio_penalty=0.001", "ratio_penalty=0.1"),
    "nearest_trajectory": ("temperature=0.1", "temperature=0.05", "temperature=0.2"),
    "tailo": ("sharpness=1.25", "sharpness=0.625", "sharpness=2.5"),
    "bco": ("policy_rate=0.0003", "policy_rate=0.00015", "policy_rate=0.0006"),
    "smodice": ("ratio_penalty=0.1", "ratio_penalty=0.01", "ratio_penalty=1"),
    "seabo:absorb=true": ("sharpness=1", "sharpness=0.2", "sharpness=2"),
}
#: A choice among the settings of all methods together that have been run in all tasks.
ANY = "any method"
#: The rules of choice. Those after `DEFAULT` need returns, or choose nothing.
FIRST, ERROR, DEFAULT, BEST, MEAN = "rehearsal", "error", "default", "best", "mean"

#: The value of each seed, by the method and the world.
Tasks = dict[str, dict[int, float]]


@dataclass(frozen=True)
class Tuning:
    """The part to run. The same command continues and extends the experiments of a part."""

    methods: tuple[str, ...] = tuple(SETTINGS)
    """Methods, each with its three settings."""
    worlds: tuple[str, ...] = ("reach", "reach-noisy", "grid-noisy", "cartpole-noisy")
    """Worlds that end."""
    seeds: int = 5
    """Runs with the seeds 0, 1, ..., each with demonstrations and logs of its own."""
    steps: int = 20_000
    """Gradient steps of a run."""
    episodes: int = 100
    """Episodes of an evaluation."""
    batch_size: int = 512
    """Batch size: rows of each part of the data in a step."""
    set: tuple[str, ...] = ()
    """Other hyperparameters, such as width=64, for every method that has them."""
    world_steps: int = STEPS
    """Gradient steps of learning a world from logs."""
    rehearsed: int = EPISODES
    """Rehearsed episodes of each policy."""

    def __post_init__(self):
        check_names("method", self.methods, SETTINGS)

    def choice(self) -> Choice:
        """The arms to train."""
        names = tuple(arm_name(name, one) for name in self.methods for one in SETTINGS[name])
        return Choice(worlds=self.worlds, algorithms=names, seeds=self.seeds)

    def settings(self) -> Settings:
        """The settings of their training, with one evaluation at the end."""
        return Settings(
            steps=self.steps,
            every=self.steps,
            episodes=self.episodes,
            batch_size=self.batch_size,
            set=self.set,
        )


class Measured(NamedTuple):
    """The offline measures of a policy, and its success."""

    works: bool
    rehearsal: float
    error: float
    success: float


#: The measures by arm, world and seed.
Measures = dict[tuple[str, str, int], Measured]


def arm_name(method: str, setting: str) -> str:
    """The name of a method's arm with one of its settings."""
    return f"{method}{',' if ':' in method else ':'}{setting}"


def experiment(tuning: Tuning, folder: Path, *, executor: Executor | None = None) -> list[Path]:
    """Train the runs that are missing, rehearse their policies, and write the tables.

    Fleets train where the executor says; without one, in this process.
    """
    claim(folder, {"world_steps": tuning.world_steps, "rehearsed": tuning.rehearsed})
    runs = folder / "endings"
    endings.experiment(tuning.choice(), tuning.settings(), runs, executor=executor, exact=False)
    rehearse_missing(tuning, folder)
    return [folder / MEASURES, *write_tables(folder)]


# ---- Measures ----


def rehearse_missing(tuning: Tuning, folder: Path) -> None:
    """Rehearse the policies that measures.csv lacks, world by world and seed by seed."""
    rows = read_rows(folder / MEASURES)
    known = {_key(row) for row in rows}
    for world, seed in product(tuning.worlds, range(tuning.seeds)):
        found = list(_policies(folder / "endings", world, seed))
        new = [(facts, policy) for facts, policy in found if _key(facts) not in known]
        if new:
            console.say(f"rehearsing {len(new)} policies of {world}, seed {seed}")
            rows += _rehearse(new, tuning, folder, world, seed)
            write_csv(folder / MEASURES, rows)


def _policies(runs: Path, world: str, seed: int) -> Iterator[tuple[dict[str, Any], Policy]]:
    """The last policies of a task, each with the facts that are known without rehearsal."""
    success = {_key(row): row["share"] for row in read_rows(runs / SCORES)}
    for path in folders(runs):
        trials, last = read_trials(path), {row["run"]: row for row in RunFolder(path).rows()}
        mine = [i for i, trial in enumerate(trials) if (trial.world, trial.seed) == (world, seed)]
        policies = RunFolder(path).policies() if mine else {}
        for i in mine:
            facts = trials[i].columns()
            if _key(facts) in success:  # it has reached the last step
                known = {key: last[i][key] for key in ("step", CRITERION)}
                yield facts | known | {"share": success[_key(facts)]}, policies[i]


def _rehearse(
    found: Sequence[tuple[dict[str, Any], Policy]],
    tuning: Tuning,
    folder: Path,
    world: str,
    seed: int,
) -> list[dict[str, Any]]:
    task = load(world, seed=seed)
    learned = _learned(Recorded(task.expert, task.offline, ""), tuning, folder, f"{world}-{seed}")
    policies = [policy for _, policy in found]
    made = rehearse_policies(learned, policies, task.expert, episodes=tuning.rehearsed)
    return [
        facts | {"works": int(one.verdict.works), REHEARSAL: f"{one.verdict.score:.6f}"}
        for (facts, _), one in zip(found, made, strict=True)
    ]


def _learned(recorded: Recorded, tuning: Tuning, folder: Path, name: str) -> LearnedWorld:
    """The world of some logs, from its file if it was learned before."""
    path = folder / WORLDS / f"{name}.safetensors"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        recorded.learn(tuning.world_steps).save(path)
    return load_world(path)


def _key(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return str(row["arm"]), str(row["world"]), int(row["seed"])


# ---- Choices ----


def read_measures(folder: Path) -> Measures:
    """The measures of all policies."""
    return {
        _key(row): Measured(
            bool(row["works"]), row[REHEARSAL], row[CRITERION], 100 * float(row["share"])
        )
        for row in read_rows(folder / MEASURES)
    }


#: How each rule makes one number of the settings of a method; equal ones: the first, the default.
RULES: Mapping[str, Callable[[Sequence[Measured]], float]] = {
    FIRST: lambda found: max(found, key=lambda one: (one.works, one.rehearsal)).success,
    ERROR: lambda found: min(found, key=lambda one: one.error).success,
    DEFAULT: lambda found: found[0].success,
    BEST: lambda found: max(one.success for one in found),
    MEAN: lambda found: sum(one.success for one in found) / len(found),
}


def choose(measures: Measures) -> tuple[dict[str, Tasks], dict[str, list[str]]]:
    """The success by rule, task and seed, and the tasks of each method.

    A task is a method in a world. Those without all settings of the method are left out.
    """
    found: dict[str, Tasks] = {rule: {} for rule in RULES}
    groups: dict[str, list[str]] = {}
    pairs = list(dict.fromkeys((world, seed) for _, world, seed in measures))
    arms = {name: [arm_name(name, one) for one in SETTINGS[name]] for name in SETTINGS}
    whole = [
        n for n in arms if all((arm, *pair) in measures for arm, pair in product(arms[n], pairs))
    ]
    arms[ANY] = [arm for name in whole for arm in arms[name]] if len(whole) > 1 else [ANY]
    for method, (world, seed) in product(arms, pairs):
        if not all((arm, world, seed) in measures for arm in arms[method]):
            continue
        task, mine = f"{method} in {world}", [measures[arm, world, seed] for arm in arms[method]]
        for rule, value in RULES.items():
            found[rule].setdefault(task, {})[seed] = value(mine)
        if task not in groups.setdefault(method, []):
            groups[method].append(task)
    return found, groups | {
        ALL: [t for name, tasks in groups.items() if name != ANY for t in tasks]
    }


# ---- Tables ----


def write_tables(folder: Path) -> list[Path]:
    """Write the tables of all policies that were measured."""
    found, groups = choose(read_measures(folder))
    rows, text = means(found, groups), folder / "tables.md"
    with atomic(text) as temporary:
        temporary.write_text(markdown(rows))
    gains = [
        {"method": lead.group, "over": lead.other} | lead.columns(1)
        for lead in compare(found, FIRST, groups)
    ]
    return [write_csv(folder / "tuned.csv", rows), write_csv(folder / "gains.csv", gains), text]


def means(found: Mapping[str, Tasks], groups: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """A row for each method and rule."""
    table = []
    for method, rule in product(groups, found):
        values = stack(found[rule], groups[method])
        line = {
            "method": method,
            "rule": rule,
            "tasks": len(groups[method]),
            "seeds": seeds_of(values),
        }
        mean = cells("mean", statistics.interval(values, statistics.mean), 1)
        table.append(line | mean | over_tasks("mean_tasks", values, 1))
    return table


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The means and their intervals over tasks: a row for each method, a column for each rule."""
    lines = [["method", *RULES], ["---"] * (1 + len(RULES))]
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        cell = [f"{r['mean']} ({r['mean_tasks_low']} to {r['mean_tasks_high']})" for r in mine]
        lines.append([f"`{method}`", *cell])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
