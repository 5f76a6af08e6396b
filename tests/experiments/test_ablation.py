"""The table of departures from the paper: its arms, and the worth of each departure."""

import pytest

from lobsdice.algorithms import LobsDICE
from lobsdice.data.files import write_csv
from lobsdice.data.recordings import Preparation
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.ablation import Extent, departures, worth, write_tables
from lobsdice.experiments.arms import settings_of, split
from lobsdice.experiments.control.grid import Grid, Trial
from lobsdice.experiments.control.trials import fleets
from lobsdice.experiments.endings.settings import Choice, Settings
from lobsdice.experiments.endings.trials import fleets as ending_fleets
from lobsdice.experiments.endings.worlds import make_data
from lobsdice.experiments.methods import collect
from lobsdice.training.engine import Options
from lobsdice.training.folder import describe
from lobsdice.training.recipe import Recipe


def made(arm):
    """All settings of an arm, as `lobsdice train` writes them."""
    found = settings_of(*split(arm))
    return describe(found.make({})), describe(found.options(Options())), found.initial


def settings(recipe):
    return describe(recipe.algorithm), describe(recipe.training), recipe.preparation.initial


def ended(arm, world, seed, share):
    return {"arm": arm, "world": world, "seed": seed, "step": 1, "share": share}


def test_the_papers_arm_is_what_the_option_paper_trains(tmp_path):
    recipe = Recipe(out=tmp_path, algorithm=LobsDICE(), preparation=Preparation())
    assert made("lobsdice:paper") == settings(recipe.as_published())
    assert made("lobsdice") == settings(recipe)


def test_each_arm_differs_in_one_setting_from_the_defaults_or_the_paper():
    def differing(arm, other):
        flat = [{**a, **o, "initial": i} for a, o, i in (made(arm), made(other))]
        return {name for name in flat[0] if flat[0][name] != flat[1][name]}

    for one in departures():
        assert differing(one.undone, "lobsdice") == {one.name}
        assert differing(one.alone, "lobsdice:paper") == {one.name}
    every = {one.name for one in departures()}
    assert differing("lobsdice", "lobsdice:paper") == every and len(every) == 11


def test_arms_that_differ_in_real_numbers_and_initial_states_train_in_one_program():
    arms = Extent(departures=("sharpness", "average", "initial", "hold_out")).arms()
    assert len(arms) == 10
    trials = Choice(worlds=("grid",), algorithms=arms, seeds=2).trials()
    groups = [{t.arm.name for t in group} for group in ending_fleets(trials, Settings())]
    assert [len(group) for group in groups] == [4, 1, 4, 1]
    grid = Grid(env=("hopper",), algorithms=arms, seeds=2, sizes=(1,))
    assert [{t.algorithm for t in group} for group in fleets(grid.trials())] == groups


def test_an_arm_may_take_all_states_as_initial_ones():
    every = make_data("grid", 0, initial="all")
    assert len(every.init) == every.offline.size > len(make_data("grid", 0).init)
    assert Trial("lobsdice:paper", "hopper", (1, 1, 1), 0).settings.initial == "all"


def test_settings_and_departures_that_there_are_not_are_refused():
    with pytest.raises(LobsDICEError, match="lobsdice has no hyperparameter 'steps'"):
        settings_of("lobsdice", ("steps=3",))
    with pytest.raises(LobsDICEError, match="no departure from the paper 'blurr'"):
        Extent(departures=("blurr",)).arms()


def test_worth_is_with_minus_without_among_all_others_and_alone(tmp_path):
    shares = {
        "lobsdice": 0.9,
        "lobsdice:blur=0": 0.7,
        "lobsdice:paper": 0.2,
        "lobsdice:paper,blur=0.5": 0.3,
    }
    worlds = {"grid": 0.0, "reach": 0.05}
    rows = [
        ended(arm, world, seed, share + more + 0.01 * seed)
        for arm, share in shares.items()
        for world, more in worlds.items()
        for seed in range(3)
    ]
    (tmp_path / "endings").mkdir()
    write_csv(tmp_path / "endings" / "scores.csv", rows)
    found = {row["place"]: row for row in worth(*collect(tmp_path))}
    assert {place: (row["departure"], row["lead"]) for place, row in found.items()} == {
        "among": ("blur: 0 to 0.5", "20.0"),
        "alone": ("blur: 0 to 0.5", "10.0"),
    }
    names = {path.name for path in write_tables(tmp_path)}
    assert {"ablation.csv", "means.csv", "tasks.csv", "tables.md", "ablation.svg"} <= names
    text = (tmp_path / "tables.md").read_text()
    assert "| blur: 0 to 0.5 | 20.0 (20.0 to 20.0), p = 0.5000 | 10.0" in text


def test_a_table_without_any_departure_is_refused(tmp_path):
    (tmp_path / "endings").mkdir()
    write_csv(tmp_path / "endings" / "scores.csv", [ended("lobsdice", "grid", 0, 1.0)])
    with pytest.raises(LobsDICEError, match="no departure"):
        write_tables(tmp_path)
