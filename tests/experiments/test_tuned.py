"""The table of three settings a method: the choices, and a toy experiment that is continued."""

import csv
from dataclasses import replace

import pytest

from lobsdice.data.files import write_csv
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.comparisons import ALL
from lobsdice.experiments.tuned import (
    ANY,
    SETTINGS,
    Measured,
    Tuning,
    arm_name,
    choose,
    experiment,
    read_measures,
    write_tables,
)
from lobsdice.training.folder import read_rows
from lobsdice.training.rehearsal.rehearse import rehearse_policies

TOY = Tuning(
    methods=("nearest_trajectory", "bco"),
    worlds=("grid",),
    seeds=1,
    steps=8,
    episodes=2,
    batch_size=8,
    set=("width=8",),
    world_steps=8,
    rehearsed=2,
)


def read_table(path, method=None):
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if method in (None, row["method"])]


def measured(method, values, world="grid", seed=0):
    """The measures of a method's settings, in their order."""
    return {
        (arm_name(method, setting), world, seed): Measured(*one)
        for setting, one in zip(SETTINGS[method], values, strict=True)
    }


def test_a_recommended_policy_goes_before_one_with_a_higher_score():
    found, groups = choose(
        measured("bco", [(False, 0.9, 0.3, 10.0), (True, 0.5, 0.2, 60.0), (False, 0.1, 0.1, 80.0)])
    )
    values = {rule: tasks["bco in grid"][0] for rule, tasks in found.items()}
    mean = {"rehearsal": 60, "error": 80, "default": 10, "best": 80, "mean": 50}
    assert values == mean and groups == {"bco": ["bco in grid"], ALL: ["bco in grid"]}


def test_equal_measures_choose_the_default():
    alike = [(False, 0.5, 0.2, success) for success in (10.0, 20.0, 30.0)]
    found, _ = choose(measured("bco", alike))
    assert {found[rule]["bco in grid"][0] for rule in ("rehearsal", "error")} == {10.0}


def test_the_choice_among_all_methods_is_in_no_mean_over_methods():
    every = [(True, 0.1, 0.2, 50.0)] * 3
    best = [(True, 0.1, 0.2, 50.0), (True, 0.1, 0.2, 50.0), (True, 0.8, 0.2, 70.0)]
    both = measured("bco", every) | measured("lobsdice", best)
    found, groups = choose(both)
    assert found["rehearsal"][f"{ANY} in grid"] == {0: 70.0}
    assert groups[ANY] == [f"{ANY} in grid"] and groups[ANY][0] not in groups[ALL]
    # A method that lacks a task is not among all methods, and one alone is no choice.
    assert ANY not in choose(both | measured("bco", every, world="reach"))[1]


def test_the_first_setting_of_each_method_is_its_default():
    from lobsdice.experiments.endings.settings import Settings
    from lobsdice.training.folder import describe

    for method, settings in SETTINGS.items():
        name, _, own = method.partition(":")
        usual, given, *others = (
            describe(Settings().algorithm(name, tuple(filter(None, (own, one)))))
            for one in ("", *settings)
        )
        assert given == usual and len(others) == 2 and given not in others


def test_an_experiment_is_rehearsed_once_and_leaves_its_tables(tmp_path, monkeypatch):
    paths = experiment(TOY, tmp_path)
    assert {p.name for p in paths} == {"measures.csv", "tuned.csv", "gains.csv", "tables.md"}
    assert all(path.stat().st_size for path in paths)
    before = read_measures(tmp_path)
    assert set(before) == {(arm.name, "grid", 0) for arm in TOY.choice().arms()}
    methods = {row["method"] for row in read_table(tmp_path / "tuned.csv")}
    assert methods == {*TOY.methods, ANY, ALL}

    counts, original = [], rehearse_policies

    def spy(world, policies, *others, **options):
        counts.append(len(policies))
        return original(world, policies, *others, **options)

    monkeypatch.setattr("lobsdice.experiments.tuned.rehearse_policies", spy)
    experiment(TOY, tmp_path)
    assert not counts and read_measures(tmp_path) == before
    rows = read_rows(tmp_path / "measures.csv")
    write_csv(tmp_path / "measures.csv", rows[:4])  # as if it had been interrupted
    experiment(TOY, tmp_path)
    assert counts == [2] and read_measures(tmp_path) == before
    with pytest.raises(LobsDICEError, match="other settings"):
        experiment(replace(TOY, world_steps=9), tmp_path)


def test_tables_come_from_the_measures_alone(tmp_path):
    rows = [
        {"arm": arm_name("bco", one), "world": world, "seed": seed, "step": 8}
        | {"demonstration_error": error, "share": 0.5 + error, "works": 0, "rehearsal": error}
        for one, error in zip(SETTINGS["bco"], (0.1, 0.2, 0.3), strict=True)
        for world in ("grid", "reach")
        for seed in range(2)
    ]
    write_csv(tmp_path / "measures.csv", rows)
    write_tables(tmp_path)
    table = {row["rule"]: row for row in read_table(tmp_path / "tuned.csv", "bco")}
    assert {rule: row["mean"] for rule, row in table.items()} == {
        "rehearsal": "80.0",
        "error": "60.0",
        "default": "60.0",
        "best": "80.0",
        "mean": "70.0",
    }
    gains = {row["over"]: row["lead"] for row in read_table(tmp_path / "gains.csv", "bco")}
    assert gains["default"] == "20.0" and gains["best"] == "0.0"


def test_a_method_without_settings_is_refused():
    with pytest.raises(LobsDICEError, match="there is no method 'otr'"):
        Tuning(methods=("otr",))
