"""The table of all methods: values of both kinds of experiments in one scale, means and leads."""

from dataclasses import replace

import numpy as np

from lobsdice.data.files import write_csv
from lobsdice.experiments import methods
from lobsdice.experiments.methods import (
    METHODS,
    Extent,
    collect,
    experiment,
    leads,
    markdown,
    means,
    write_tables,
)


def ended(method, world, seed, step, share):
    return {"arm": method, "world": world, "seed": seed, "step": step, "share": share}


def scored(method, seed, step, score):
    task = {"environment": "hopper", "expert": 5, "medium": 500, "random": 500, "fragment": ""}
    return {"algorithm": method, **task, "seed": seed, "step": step, "score": score}


def made(folder):
    """LobsDICE is 10 ahead in the worlds that end, and 20 behind on hopper."""
    lead = {"lobsdice": (0.6, 40.0), "seabo": (0.5, 60.0)}
    rows = [
        ended(name, world, seed, step, share + 0.01 * seed - (step == 1))
        for name, (share, _) in lead.items()
        for world in ("reach", "grid")
        for seed in range(3)
        for step in (1, 2)
    ]
    others = [
        scored(name, seed, step, score + seed if step == 2 else 0.0)
        for name, (_, score) in lead.items()
        for seed in range(3)
        for step in (2, 1)
    ]
    for kind, table in (("endings", rows), ("mixtures", others)):
        (folder / kind).mkdir()
        write_csv(folder / kind / "scores.csv", table)
    return folder


def test_means_are_of_the_last_policies_of_each_kind_and_of_all_tasks(tmp_path):
    found, groups = collect(made(tmp_path))
    assert list(groups) == ["endings", "mixtures", "all"] and len(groups["all"]) == 3
    table = {(row["kind"], row["method"]): float(row["mean"]) for row in means(found, groups)}
    assert table["endings", "lobsdice"] == 61.0 and table["mixtures", "seabo"] == 61.0
    np.testing.assert_allclose(table["all", "lobsdice"], (2 * 61 + 41) / 3, atol=0.05)
    assert "| `seabo` | 51.0" in markdown(means(found, groups))


def test_leads_are_those_of_lobsdice_paired_by_task_and_seed(tmp_path):
    found, groups = collect(made(tmp_path))
    table = {row["kind"]: row for row in leads(found, groups)}
    assert float(table["endings"]["lead"]) == 10.0 and float(table["mixtures"]["lead"]) == -20.0
    assert {row["verdict"] for row in table.values()} == {"open"}  # so few tasks decide nothing


def test_the_tables_and_the_figure_are_written(tmp_path):
    written = {path.name for path in write_tables(made(tmp_path))}
    assert written == {
        "methods.csv",
        "tasks.csv",
        "leads.csv",
        "tables.md",
        "methods.png",
        "methods.svg",
    }
    assert all((tmp_path / name).stat().st_size for name in written)


def test_a_folder_beside_is_a_kind_of_tasks_of_its_own(tmp_path):
    main, mazes = (tmp_path / name for name in ("main", "mazes"))
    main.mkdir()
    (mazes / "endings").mkdir(parents=True)
    write_csv(mazes / "endings" / "scores.csv", [ended("seabo", "pointmaze", 0, 2, 0.9)])
    found, groups = collect(made(main), [mazes])
    assert found["seabo"]["pointmaze"] == {0: 90.0}
    assert set(groups["endings"]) == {"reach", "grid"} and groups["mazes"] == ["pointmaze"]
    assert groups["all"] == groups["endings"] + groups["mixtures"] + groups["mazes"]


def test_a_part_has_the_sizes_and_hyperparameters_that_it_was_given(tmp_path, monkeypatch):
    seen = {}

    def spy(kind, grid, plan, folder, *, executor):
        seen[kind] = grid, plan, folder

    monkeypatch.setattr("lobsdice.experiments.methods.control.experiment", spy)
    monkeypatch.setattr(methods, "write_tables", lambda *arguments: [])
    given = {"expert": 30, "conditions": ("few-5",), "every": 10, "set": ("width=8",)}
    extent = Extent(kinds=("mixtures", "mujoco"), env=("hopper",), steps=20, **given)
    experiment(extent, tmp_path)
    assert [grid.sizes for grid, _, _ in seen.values()] == [(500,), (100, 500, 1000)]
    for kind, (grid, plan, folder) in seen.items():
        assert (grid.expert, grid.conditions, grid.env) == (30, ("few-5",), ("hopper",))
        assert (plan.steps, plan.every, plan.set) == (20, 10, ("width=8",))
        assert folder == tmp_path / kind
    experiment(replace(extent, sizes=(7,)), tmp_path)
    assert [grid.sizes for grid, _, _ in seen.values()] == [(7,), (7,)]


def test_a_method_without_all_tasks_has_no_mean_over_them(tmp_path):
    found, groups = collect(made(tmp_path))
    del found["seabo"]["grid"]
    kinds = {row["kind"] for row in means(found, groups) if row["method"] == "seabo"}
    assert kinds == {"mixtures"}


def test_methods_are_those_that_need_no_actions_of_demonstrations():
    from lobsdice.algorithms import ALGORITHMS

    assert Extent().methods("mujoco") == METHODS
    assert {"seabo", "otr", "tailo", "nearest_trajectory"} <= set(METHODS)
    assert not any(ALGORITHMS[name]().needs_labels for name in METHODS)


def test_leads_are_corrected_for_the_number_of_methods_in_a_family():
    def values(mean):
        return {f"task {i}": {0: mean + 0.1 * i} for i in range(8)}

    found = {"lobsdice": values(2.0)} | {name: values(1.0) for name in METHODS[1:]}
    table = leads(found, {"endings": list(found["bc"])})
    assert [row["method"] for row in table] == list(METHODS[1:])
    # Eight equal signs of eight have the p-value 2/256; there are six methods in a family.
    assert {row["adjusted_p"] for row in table} == {f"{6 * 2 / 256:.4f}"}
    assert {row["verdict"] for row in table} == {"ahead"}
