"""Verdicts of the audit on built-in data, and its detections and false alarms for sampling rates.

    python benchmarks/audit_rates.py                  # all tables of docs/audit.md
    python benchmarks/audit_rates.py --tasks hopper
    python benchmarks/audit_rates.py --tasks made     # the last table alone
    python benchmarks/audit_rates.py --tables verdicts

The first table has a row for each mixture of built-in data: the verdict on five demonstrations, and
the numbers that decide it.

The second table counts the false alarms for each mixture, among nine draws of five demonstrations,
with all features or only positions, as whole episodes or as single transitions. Then it has the
rates that the audit finds if the demonstrations, or the logs, keep every 2nd, 5th or 10th state.

The last table has a row for each made-up world, with twenty draws of five demonstrations and 30
logs. It counts the false alarms, and the detections if the demonstrations, or the logs, keep every
2nd state.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

import lobsdice as ld
from lobsdice.data.audit.coverage import groups
from lobsdice.data.audit.rate import Rate, compare_rates
from lobsdice.data.episodes import Episodes
from lobsdice.data.normaliser import fit_normaliser
from lobsdice.data.prepare import observations
from lobsdice.environments.tasks.table import SOURCES

DRAWS, DEMONSTRATIONS = 9, 5
MADE_DRAWS, MADE_LOGS = 20, 30
EVERY = (2, 5, 10)
#: Expert, medium and random episodes.
MIXTURES = {
    "hopper": [
        (100, 500, 500),
        (10, 20, 20),
        (5, 500, 500),
        (1, 500, 500),
        (0, 500, 500),
        (0, 0, 1000),
    ],
    "walker2d": [(40, 60, 200), (5, 60, 200), (0, 60, 200), (0, 0, 200)],
    "halfcheetah": [(20, 30, 30), (5, 30, 30), (0, 30, 30), (0, 0, 30)],
    "ant": [
        (20, 30, 30),
        (0, 30, 30),
        (0, 0, 30),
        (100, 500, 500),
        (0, 500, 500),
        (0, 0, 1000),
    ],
}
#: The number of features before the velocities.
POSITIONS = {"hopper": 5, "walker2d": 8, "halfcheetah": 8, "ant": 13}

#: A function of a number of episodes, True for demonstrations, and a generator. It returns states
#: with the axes [episode, row, feature].
World = Callable[[int, bool, np.random.Generator], np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tasks = [*MIXTURES, "made"]
    parser.add_argument("--tasks", nargs="+", choices=tasks, default=tasks)
    tables = {"verdicts": verdict_line, "rates": rate_line}
    parser.add_argument("--tables", nargs="+", choices=tables, default=list(tables))
    chosen = parser.parse_args()
    for table in chosen.tables:
        for name in chosen.tasks:
            for mixture in MIXTURES.get(name, ()):
                print(tables[table](name, mixture), flush=True)
    if "made" in chosen.tasks and "rates" in chosen.tables:
        for name in MADE:
            print(made_line(name), flush=True)


def built_in(name: str, mixture: tuple[int, ...]) -> ld.Task:
    """Built-in data with so many episodes of each source, and demonstrations for all draws."""
    offline: dict[str, int] = {s: n for s, n in zip(SOURCES, mixture, strict=True)}
    return ld.load(name, expert=DRAWS * DEMONSTRATIONS, offline=offline)


def verdict_line(name: str, mixture: tuple[int, ...]) -> str:
    """A row of the first table."""
    task = built_in(name, mixture)
    found = ld.audit(task.expert.first(DEMONSTRATIONS), task.offline)
    auc, alike = found.discrimination.auc, found.discrimination.lookalikes
    return (
        f"| {name} {' / '.join(map(str, mixture))} | {found.uncovered_share:.1%} | {auc:.3f} | "
        f"{alike:.2g} | {found.verdict} |"
    )


def rate_line(name: str, mixture: tuple[int, ...]) -> str:
    """A row of the second table."""
    task = built_in(name, mixture)
    alarms = [rate(*both) is not None for both in of_one_rate(task, POSITIONS[name])]
    first = task.expert.first(DEMONSTRATIONS)
    found = [rate(thinned(first, every), task.offline) for every in EVERY]
    found += [rate(first, thinned(task.offline, every)) for every in EVERY]
    said = ["-" if r is None else f"{r.demonstrated}:{r.logged}" for r in found]
    return f"| {name} {' / '.join(map(str, mixture))} | {sum(alarms)} of {len(alarms)} | " + (
        f"{' | '.join(said)} |"
    )


def of_one_rate(task: ld.Task, positions: int) -> Iterator[tuple[Episodes, Episodes]]:
    """Yield demonstrations and logs of the same rate."""
    for i in range(DRAWS):
        expert = task.expert.first(DEMONSTRATIONS, skip=i * DEMONSTRATIONS)
        for width in (task.expert.state_size, positions):
            ours, logs = (first_columns(one, width) for one in (expert, task.offline))
            yield ours, logs
            yield single_transitions(ours), logs


def rate(expert: Episodes, offline: Episodes) -> Rate | None:
    normaliser = fit_normaliser(offline)
    ours, logs = (observations(one, normaliser=normaliser).pairs for one in (expert, offline))
    return compare_rates(ours, groups(expert), logs, groups(offline))


def first_columns(episodes: Episodes, width: int) -> Episodes:
    columns = np.ascontiguousarray(episodes.observations[:, :width])
    return replace(episodes, observations=columns)


def single_transitions(episodes: Episodes, every: int = 20) -> Episodes:
    """Every n-th transition, each as an episode of its own."""
    rows = episodes.step_rows[episodes.step_numbers % every == 0]
    ends = np.stack([rows, rows + 1], axis=1).ravel()
    return Episodes.from_arrays(episodes.observations[ends], lengths=[1] * len(rows))


def thinned(episodes: Episodes, every: int) -> Episodes:
    """Episodes of every n-th state."""
    parts = np.split(episodes.observations, episodes.starts[1:])
    kept = [part[::every] for part in parts if len(part) > every]
    return Episodes.from_arrays(np.concatenate(kept), lengths=[len(part) - 1 for part in kept])


def made_line(name: str) -> str:
    """A row of the last table."""
    counts = np.zeros(3, int)
    for seed in range(MADE_DRAWS):
        random = np.random.default_rng(seed)
        expert, offline = (
            of_one_length(MADE[name](count, shown, random))
            for count, shown in ((DEMONSTRATIONS, True), (MADE_LOGS, False))
        )
        cases = (expert, offline), (thinned(expert, 2), offline), (expert, thinned(offline, 2))
        counts += [rate(*case) is not None for case in cases]
    return f"| {name} | {' | '.join(map(str, counts))} |"


def of_one_length(states: np.ndarray) -> Episodes:
    count, rows, width = states.shape
    return Episodes.from_arrays(states.reshape(-1, width), lengths=[rows - 1] * count)


def loops(count: int, random: np.random.Generator, *, turn: float = 0.05) -> np.ndarray:
    """Circles of different sizes and speeds, with the axes [episode, row, feature]."""
    turns = turn * random.uniform(0.8, 1.2, (count, 1)) * np.arange(101)
    angle = random.uniform(0, 2 * np.pi, (count, 1)) + turns
    circle = np.stack([np.sin(angle), np.cos(angle)], axis=2)
    return circle * random.uniform(0.5, 1.5, (count, 1, 1))


def held(times: int, noise: float) -> World:
    """A world whose sensor is read more often than it measures."""

    def made(count: int, shown: bool, random: np.random.Generator) -> np.ndarray:
        rows = np.repeat(loops(count, random), times, axis=1)
        return rows + noise * random.normal(size=rows.shape)

    return made


def rounded(unit: float, turn: float) -> World:
    """A world whose positions are rounded, as those of an encoder."""
    return lambda count, shown, random: unit * np.round(loops(count, random, turn=turn) / unit)


def grid(side: int, chance: tuple[float, float], one_hot: bool) -> World:
    """Paths to the far corner. `chance` has the shares of random steps of expert and logs."""
    moves = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])

    def made(count: int, shown: bool, random: np.random.Generator) -> np.ndarray:
        place = random.integers(0, side, (count, 2))
        places = [place]
        for _ in range(50):
            ahead = np.where(place[:, 0] == side - 1, 1, random.integers(0, 2, count))
            ahead = np.where(place[:, 1] == side - 1, 0, ahead)
            astray = random.random(count) < chance[0 if shown else 1]
            action = np.where(astray, random.integers(0, 4, count), ahead)
            place = np.clip(place + moves[action], 0, side - 1)
            places.append(place)
        rows = np.stack(places, axis=1)
        return np.eye(side * side)[rows @ [side, 1]] if one_hot else rows.astype(float)

    return made


def point_mass(gains: tuple[float, float], damping: float, noise: float) -> World:
    """Paths from rest to the origin, with a gain for the expert and one for the logs."""

    def made(count: int, shown: bool, random: np.random.Generator) -> np.ndarray:
        gain = gains[0 if shown else 1]
        place, speed = random.uniform(-1, 1, (count, 2)), np.zeros((count, 2))
        rows = []
        for _ in range(101):
            rows.append(np.concatenate([place, speed], axis=1))
            force = -gain * place - 2 * damping * np.sqrt(gain) * speed
            speed = speed + 0.1 * (force + noise * random.normal(size=force.shape))
            place = place + 0.1 * speed
        return np.stack(rows, axis=1)

    return made


MADE: dict[str, World] = {
    "circles, noise 0.01": held(1, 0.01),
    **{
        f"circles, each row {times} times{name}": held(times, noise)
        for name, noise in (("", 0), (", noise 0.001", 0.001), (", noise 0.01", 0.01))
        for times in (2, 3, 5, 10)
    },
    **{
        f"{name} rounded to {unit}": rounded(unit, turn)
        for name, turn in (("circles", 0.05), ("faster circles", 0.15))
        for unit in (0.02, 0.05, 0.1)
    },
    **{
        f"{side} x {side} grid{seen}, {name}": grid(side, chance, one_hot)
        for side in (5, 8)
        for seen, one_hot in (("", False), (" as one-hot", True))
        for name, chance in (
            ("both by chance 0.2", (0.2, 0.2)),
            ("both by chance 0.5", (0.5, 0.5)),
            ("greedy and random", (0.0, 1.0)),
        )
    },
    **{
        f"{name}, gain {gains[0]} and {gains[1]}{seen}": point_mass(gains, damping, noise)
        for name, damping in (("point mass", 1.0), ("swinging point mass", 0.5))
        for seen, noise in (("", 0), (", noisy", 0.1))
        for gains in ((1, 1), (1, 4), (4, 1), (1, 2), (2, 1))
    },
}


if __name__ == "__main__":
    main()
