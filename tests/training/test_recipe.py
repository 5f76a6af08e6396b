"""A recipe is the same after it was written to a run folder and read again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from made_runs import make_run
from worlds import noise

from lobsdice.algorithms import ALGORITHMS, BC, DemoDICE, LobsDICE
from lobsdice.data.formats import ReadOptions, write
from lobsdice.data.recordings import Preparation
from lobsdice.errors import LobsDICEError
from lobsdice.training import recipe as module
from lobsdice.training.engine import Options
from lobsdice.training.recipe import Recipe, read_recipe

#: The keys that run folders have had since the first version; they must stay.
OLD = (
    *("out", "expert", "offline", "labelled", "task", "demonstrations", "mixture", "env", "seeds"),
    *("every", "episodes", "tensorboard", "wandb", "json"),
    *("training", "preparation", "read", "algorithm", "name"),
)
#: Those that came later; a folder without them must be readable.
LATER = ("devices", "keep")


@pytest.fixture
def files(tmp_path) -> dict:
    """Demonstrations without actions, and logs."""
    write(tmp_path / "demos.npz", noise(40, seed=1).without_actions())
    write(tmp_path / "logs.npz", noise(80, seed=0))
    return {"expert": (str(tmp_path / "demos.npz"),), "offline": (str(tmp_path / "logs.npz"),)}


def test_every_setting_survives_json(files):
    recipe = Recipe(
        **files,
        out=Path("run"),
        mixture=(1, 2, 3),
        seeds=3,
        every=7,
        wandb="project",
        training=Options(steps=9, hold_out=False, terminal="stay"),
        preparation=Preparation(subsample=2),
        read=ReadOptions(observation_columns=("a", "b"), action_low=(-1.0,), action_high=(1.0,)),
        algorithm=LobsDICE(alpha=0.5),
    )
    plain = json.loads(json.dumps(recipe.to_plain()))
    assert sorted(plain) == sorted(OLD + LATER)
    assert Recipe.from_plain(plain) == recipe
    assert Recipe.from_plain({key: plain[key] for key in OLD}) == recipe


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_every_algorithm_is_found_again_by_its_name(name):
    recipe = Recipe(out=Path("run"), algorithm=ALGORITHMS[name]())
    assert recipe.to_plain()["name"] == name
    assert Recipe.from_plain(recipe.to_plain()) == recipe


def test_settings_that_are_not_known_are_ignored_but_hyperparameters_are_not(tmp_path):
    plain = Recipe(out=tmp_path, algorithm=BC()).to_plain()
    assert Recipe.from_plain(plain | {"later": 1}).algorithm == BC()
    for wrong in ({"algorithm": {"faith": 3}}, {"read": None}):
        with pytest.raises(LobsDICEError, match="written by another version of lobsdice"):
            Recipe.from_plain(plain | wrong)


def test_an_algorithm_that_is_not_imported_is_named(tmp_path):
    plain = Recipe(out=tmp_path, algorithm=BC()).to_plain()
    with pytest.raises(LobsDICEError, match=r"no algorithm 'mine' here; .* import the module"):
        Recipe.from_plain(plain | {"name": "mine"})


def test_files_are_found_from_another_working_folder(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = Recipe(out=Path("run"), expert=("demos.npz",), offline=("logs.npz",), algorithm=BC())
    plain = recipe.to_plain()
    assert (plain["expert"], plain["offline"]) == (list(files["expert"]), list(files["offline"]))
    missing = replace(recipe, expert=("hopper/expert-v0",))  # it may be the name of a dataset
    assert missing.to_plain()["expert"] == ["hopper/expert-v0"]
    assert missing.files() == ["logs.npz"]


def test_a_fleet_has_one_run_a_seed(files, tmp_path):
    recipe = Recipe(**files, out=tmp_path, seeds=2, algorithm=BC())
    fleet = recipe.fleet(recipe.recordings())
    assert [member.seed for member in fleet.members] == [0, 1]
    assert len(fleet.datas) == 1 and len(fleet.datas[0].offline.s) == 80


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "name either --task or both --expert and --offline"),
        ({"task": "hopper", "expert": ("demos.npz",)}, "name either --task"),
        ({"expert": ("demos.npz",)}, "both --expert and --offline are needed"),
    ],
)
def test_data_is_files_or_a_task(settings, message):
    with pytest.raises(LobsDICEError, match=message):
        Recipe(out=Path("run"), algorithm=BC(), **settings).recordings()


def test_labels_are_asked_for_where_they_are_needed(files, tmp_path):
    with pytest.raises(LobsDICEError, match="DemoDICE learns from demonstrations with actions"):
        Recipe(**files, out=tmp_path, algorithm=DemoDICE()).recordings()


def test_of_logs_on_the_disk_all_are_counted_in_the_end(files, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "LOOKED_AT", 500)
    write(tmp_path / "logs.npz", noise(3000))
    training = Options(steps=8, batch_size=16)
    preparation = Preparation(pool=1024)
    chosen = {"training": training, "preparation": preparation, "algorithm": BC(width=4)}
    Recipe(**files, **chosen, out=tmp_path / "run").train({})
    assert "300 logged episodes (3,000 steps)" in " ".join(capsys.readouterr().err.split())


def test_a_run_folder_that_was_moved_knows_where_it_is(tmp_path):
    folder = make_run(tmp_path / "run", [None], env="CartPole-v1")
    recipe = read_recipe(folder.rename(tmp_path / "moved"))
    assert recipe.out == tmp_path / "moved" and recipe.environment == "CartPole-v1"


def test_a_run_of_python_is_told_what_a_rehearsal_needs(tmp_path):
    folder = make_run(tmp_path / "run", [None])
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"about": {}}))
    with pytest.raises(LobsDICEError, match="a rehearsal needs a run of `lobsdice train`"):
        read_recipe(folder)


def test_the_paper_replaces_defaults_and_nothing_that_was_given(tmp_path):
    algorithm = LobsDICE(sharpness=3.0, alpha=0.2)
    recipe = Recipe(out=tmp_path, algorithm=algorithm, training=Options(steps=7)).as_published()
    found = recipe.algorithm
    assert isinstance(found, LobsDICE)
    assert (found.sharpness, found.alpha) == (3.0, 0.2)
    assert (found.averaged, found.redraw, found.calibrate) == (False, False, False)
    assert (found.ratio_penalty, found.ratio_floor, found.penalty_every) == (0.1, 0.0, 1)
    assert (recipe.training.average, recipe.training.hold_out) == (0.0, False)
    assert (recipe.training.steps, recipe.preparation.initial) == (7, "all")
