"""Tables of the experiment: shares of the demonstrator's success, with intervals and tests.

A share is the success rate of the last policy over that of the demonstrator. `share` is with the
likeliest action of the policy, `drawn_share` with actions drawn from it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lobsdice.experiments import statistics
from lobsdice.experiments.comparisons import (
    ALL,
    cells,
    compare,
    grouped,
    over_tasks,
    seeds_of,
    stack,
)
from lobsdice.experiments.endings.settings import LOBSDICE, ROLES, role
from lobsdice.training.loggers import Row

#: Columns of shares, and what they are with.
SHARES = {"share": "the likeliest action", "drawn_share": "actions drawn from the policy"}
DIGITS = 3

#: A value for each seed, by the world.
Seeds = dict[str, dict[int, float]]
Table = list[dict[str, Any]]
#: The cells of each line of a table to read, by their columns.
Lines = dict[tuple[str, ...], dict[str, str]]


def with_shares(rows: Iterable[Row], demonstrators: Mapping[str, float]) -> list[Row]:
    """The rows with their shares of the demonstrator's success rate in the world."""
    return [
        row
        | {
            name: row[name.replace("share", "success")] / demonstrators[row["world"]]
            for name in SHARES
        }
        for row in rows
    ]


def in_order(rows: Iterable[Row], arms: Sequence[str]) -> list[Row]:
    """The rows sorted by arm, world, seed and step."""
    worlds = [world for those in ROLES.values() for world in those]

    def place(row: Row) -> tuple:
        return arms.index(row["arm"]), worlds.index(row["world"]), row["seed"], row["step"]

    return sorted(rows, key=place)


def last_values(rows: Sequence[Row], column: str) -> dict[str, Seeds]:
    """The value of each run's last policy, by arm, world and seed; rows are in order."""
    found: dict[str, Seeds] = {}
    for row in rows:
        found.setdefault(row["arm"], {}).setdefault(row["world"], {})[row["seed"]] = row[column]
    return found


def groups(worlds: Iterable[str]) -> dict[str, list[str]]:
    """The worlds of each role, and all of them, as far as they are among these."""
    present = set(worlds)
    every = (world for those in ROLES.values() for world in those)
    return grouped((world for world in every if world in present), role)


def summary(rows: Sequence[Row], demonstrators: Mapping[str, float]) -> Table:
    """A row for each world and arm: the last policies, with intervals over the seeds."""
    last = {name: last_values(rows, name) for name in ("success", "score", *SHARES)}
    steps, table = max(row["step"] for row in rows), []
    for world in groups(row["world"] for row in rows)[ALL]:
        for arm in (arm for arm, worlds in last["share"].items() if world in worlds):
            values = {name: stack(last[name][arm], [world]) for name in last}
            line = {"world": world, "role": role(world), "arm": arm, "steps": steps}
            line |= {"seeds": len(values["share"]), "demonstrator": f"{demonstrators[world]:.3f}"}
            line |= {name: f"{values[name].mean():.3f}" for name in ("success", "score")}
            for name in SHARES:
                line |= cells(name, statistics.interval(values[name], statistics.mean), DIGITS)
            line["least_share"] = f"{values['share'].min():.3f}"
            table.append(line)
    return table


def aggregate(rows: Sequence[Row]) -> Table:
    """A row for each group of worlds and arm: mean shares, with intervals over seeds and worlds."""
    table = []
    for group, worlds in groups(row["world"] for row in rows).items():
        for arm in last_values(rows, "share"):
            line: dict[str, Any] = {"worlds": group, "arm": arm}
            for name in SHARES:
                seeds = last_values(rows, name)[arm]
                mine = [world for world in worlds if world in seeds]
                if not mine or not (scores := stack(seeds, mine)).size:
                    break
                line |= {"count": len(mine), "seeds": seeds_of(scores)}
                line |= cells(name, statistics.interval(scores, statistics.mean), DIGITS)
                line |= over_tasks(f"{name}_worlds", scores, DIGITS)
            else:
                table.append(line)
    return table


def comparisons(rows: Sequence[Row]) -> Table:
    """A row for each other arm and each world or group of worlds: the lead of LobsDICE over it."""
    table = []
    every = groups(row["world"] for row in rows)
    for name in SHARES:
        last = last_values(rows, name)
        first = LOBSDICE if LOBSDICE in last else next(iter(last))
        for found in compare(last, first, every | {world: [world] for world in every[ALL]}):
            facts = {"measure": name, "worlds": found.group, "arm": first, "other": found.other}
            columns = found.columns(DIGITS)
            table.append(facts | {"count": columns.pop("tasks")} | columns)
    return table


def markdown(rows: Sequence[Row], demonstrators: Mapping[str, float], exact: Table) -> str:
    """The shares as tables to read: a row for each world, a column for each arm."""
    by_world, by_group, parts = summary(rows, demonstrators), aggregate(rows), []
    for name, meaning in SHARES.items():
        lines: Lines = {}
        for line in by_world:
            key = (line["world"], line["role"], line["demonstrator"])
            lines.setdefault(key, {})[line["arm"]] = _range(line, name, name)
        for line in by_group:
            key = (f"{line['worlds']}: mean", "", "")
            lines.setdefault(key, {})[line["arm"]] = _range(line, name, f"{name}_worlds")
        parts.append(f"Share of the demonstrator's success with {meaning}:\n")
        parts.append(_grid(("world", "role", "demonstrator"), lines))
    if exact:
        parts.append("The same shares of the grids' exact solutions:\n")
        parts.append(_grid(("world", "terminal", "method"), _exact_lines(exact)))
    return "\n".join(parts)


def _range(line: Mapping[str, Any], name: str, ends: str) -> str:
    return f"{line[name]} ({line[f'{ends}_low']} to {line[f'{ends}_high']})"


def _exact_lines(exact: Table) -> Lines:
    lines: Lines = {}
    for key in dict.fromkeys((row["world"], row["terminal"], row["method"]) for row in exact):
        mine = [r for r in exact if (r["world"], r["terminal"], r["method"]) == key]
        lines[key] = {
            meaning: f"{np.mean([float(row[name]) for row in mine]):.3f}"
            for name, meaning in SHARES.items()
        }
    return lines


def _grid(head: Sequence[str], lines: Lines) -> str:
    columns = list(dict.fromkeys(name for cells in lines.values() for name in cells))
    table = [[*head, *columns], ["---"] * (len(head) + len(columns))]
    table += [[*key, *(cells.get(name, "") for name in columns)] for key, cells in lines.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in table)
