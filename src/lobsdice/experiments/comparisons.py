"""Leads of one method over others, paired by task and seed, with intervals and tests over tasks.

Two methods meet in a task with the same seed, and so with the same data. The unit of a test is a
task: the mean lead over its seeds. Within a single task the units are the seeds. A method is
`ahead` of another only if Wilcoxon's signed-rank test and the sign-flip test both say so, after
Holm's correction for the number of methods that it is compared with.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from lobsdice.experiments import statistics
from lobsdice.experiments.statistics import Interval, Scores

#: The name of the group of all tasks.
ALL = "all"
#: A corrected p-value below this decides.
LEVEL = 0.05

Task = TypeVar("Task", bound=Hashable)
#: A value for each seed, by the task.
Seeds = Mapping[Task, Mapping[int, float]]


class Comparison(NamedTuple):
    """The lead of a method over another one in a group of tasks."""

    group: str
    other: Any
    differences: Scores
    adjusted: float
    """The larger p-value of both tests, corrected for the number of other methods."""

    def verdict(self) -> str:
        """`ahead`, `behind`, or `open` if the tests do not decide."""
        if self.adjusted >= LEVEL:
            return "open"
        return "ahead" if statistics.mean(self.differences) > 0 else "behind"

    def columns(self, digits: int) -> dict[str, Any]:
        """The columns of the comparison in a table."""
        units = _units(self.differences)
        return {
            "tasks": self.differences.shape[1],
            "seeds": seeds_of(self.differences),
            **cells("lead", statistics.interval(self.differences, statistics.mean), digits),
            **over_tasks("lead_tasks", self.differences, digits),
            "better": int((units > 0).sum()),
            "equal": int((units == 0).sum()),
            "worse": int((units < 0).sum()),
            "wilcoxon_p": f"{statistics.signed_rank(units):.4f}",
            "sign_flip_p": f"{statistics.sign_flip(units):.4f}",
            "adjusted_p": f"{self.adjusted:.4f}",
            "verdict": self.verdict(),
        }


def compare(
    methods: Mapping[Any, Seeds[Task]], first: Any, groups: Mapping[str, Sequence[Task]]
) -> list[Comparison]:
    """The lead of the method `first` over each other one, in each group of tasks.

    Tasks and seeds that only one of the two has are left out.
    """
    table = []
    for group, tasks in groups.items():
        found = {}
        for other in (name for name in methods if name != first):
            lead = leads(methods[first], methods[other])
            differences = stack(lead, [task for task in tasks if lead.get(task)])
            if differences.size:
                found[other] = differences
        adjusted = statistics.holm([_p_value(differences) for differences in found.values()])
        pairs = zip(found.items(), adjusted, strict=True)
        table += [Comparison(group, other, x, p) for (other, x), p in pairs]
    return table


def leads(ours: Seeds[Task], theirs: Seeds[Task]) -> dict[Task, dict[int, float]]:
    """Our value minus theirs, for each task and seed that both have."""
    return {
        task: {s: x - theirs[task][s] for s, x in seeds.items() if s in theirs[task]}
        for task, seeds in ours.items()
        if task in theirs
    }


def stack(seeds: Seeds[Task], tasks: Sequence[Task]) -> Scores:
    """The values of all seeds; a column for each task, masked where it has fewer than others."""
    columns = [[seeds[task][seed] for seed in sorted(seeds[task])] for task in tasks]
    scores = np.ma.masked_all((max(map(len, columns), default=0), len(tasks)))
    for place, column in enumerate(columns):
        scores[: len(column), place] = column
    return scores if np.ma.is_masked(scores) else np.asarray(scores)


def seeds_of(scores: Scores) -> int | str:
    """The number of seeds of each task, or the least and the largest one."""
    counts = np.ma.count(scores, axis=0)
    least, most = int(counts.min()), int(counts.max())
    return most if least == most else f"{least} to {most}"


def grouped(tasks: Iterable[Task], name_of: Callable[[Task], str]) -> dict[str, list[Task]]:
    """The tasks of each name, in their order, and all of them; one name alone is no group."""
    tasks = list(tasks)
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(name_of(task), []).append(task)
    return (groups if len(groups) > 1 else {}) | {ALL: tasks}


def cells(name: str, found: Interval, digits: int) -> dict[str, str]:
    """The columns of an estimate and its interval."""
    value, low, high = (f"{x:.{digits}f}" for x in found)
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def over_tasks(name: str, scores: Scores, digits: int) -> dict[str, str]:
    """The columns of the interval over tasks of a mean."""
    _, low, high = statistics.over_tasks(scores)
    return {f"{name}_low": f"{low:.{digits}f}", f"{name}_high": f"{high:.{digits}f}"}


def _units(differences: Scores) -> statistics.Differences:
    tasks = differences.shape[1]
    return np.asarray(differences.mean(axis=0)) if tasks > 1 else differences[:, 0]


def _p_value(differences: Scores) -> float:
    units = _units(differences)
    return max(statistics.signed_rank(units), statistics.sign_flip(units))
