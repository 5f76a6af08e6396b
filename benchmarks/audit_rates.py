"""How often the audit suspects different sampling rates, on built-in data whose rates are known.

    python benchmarks/audit_rates.py                  # all mixtures of docs/audit.md
    python benchmarks/audit_rates.py --tasks hopper

For each mixture: the false alarms among nine draws of five demonstrations, seen with all features
or with positions only, whole or as single transitions; then what is said of demonstrations that
keep every 2nd, 5th or 10th state, and of logs that do.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import lobsdice as ld
from lobsdice.auditing.rate import Rate, compare_rates
from lobsdice.data import fit_normaliser, observations
from lobsdice.episodes import Episodes
from lobsdice.tasks import SOURCES

DRAWS, DEMONSTRATIONS = 9, 5
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
#: How many features come before the velocities.
POSITIONS = {"hopper": 5, "walker2d": 8, "halfcheetah": 8, "ant": 13}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=list(MIXTURES))
    for name in parser.parse_args().tasks:
        for mixture in MIXTURES[name]:
            print(line(name, mixture), flush=True)


def line(name: str, mixture: tuple[int, ...]) -> str:
    """A row of the table."""
    offline: dict[str, int] = {s: n for s, n in zip(SOURCES, mixture, strict=True)}
    task = ld.load(name, expert=DRAWS * DEMONSTRATIONS, offline=offline)
    alarms = [rate(*both) is not None for both in of_one_rate(task, POSITIONS[name])]
    first = task.expert.first(DEMONSTRATIONS)
    found = [rate(thinned(first, every), task.offline) for every in EVERY]
    found += [rate(first, thinned(task.offline, every)) for every in EVERY]
    said = ["-" if r is None else f"{r.demonstrated}:{r.logged}" for r in found]
    return f"| {name} {' / '.join(map(str, mixture))} | {sum(alarms)} of {len(alarms)} | " + (
        f"{' | '.join(said)} |"
    )


def of_one_rate(task: ld.Task, positions: int) -> Iterator[tuple[Episodes, Episodes]]:
    """Demonstrations and logs, in which a step is a step."""
    for i in range(DRAWS):
        expert = task.expert.first(DEMONSTRATIONS, skip=i * DEMONSTRATIONS)
        for width in (task.expert.state_size, positions):
            ours, logs = (first_columns(one, width) for one in (expert, task.offline))
            yield ours, logs
            yield single_transitions(ours), logs


def rate(expert: Episodes, offline: Episodes) -> Rate | None:
    normaliser = fit_normaliser(offline)
    ours, logs = (
        np.concatenate(observations(one, normaliser=normaliser), axis=1)
        for one in (expert, offline)
    )
    return compare_rates(ours, expert.step_episodes, logs, offline.step_episodes)


def first_columns(episodes: Episodes, width: int) -> Episodes:
    columns = np.ascontiguousarray(episodes.observations[:, :width])
    return replace(episodes, observations=columns)


def single_transitions(episodes: Episodes, every: int = 20) -> Episodes:
    """Every n-th transition, each from a state to the next one, as an episode of its own."""
    rows = episodes.step_rows[episodes.step_numbers % every == 0]
    ends = np.stack([rows, rows + 1], axis=1).ravel()
    return Episodes.from_arrays(episodes.observations[ends], lengths=[1] * len(rows))


def thinned(episodes: Episodes, every: int) -> Episodes:
    """Every n-th state of each episode."""
    parts = np.split(episodes.observations, episodes.starts[1:])
    kept = [part[::every] for part in parts if len(part) > every]
    return Episodes.from_arrays(np.concatenate(kept), lengths=[len(part) - 1 for part in kept])


if __name__ == "__main__":
    main()
