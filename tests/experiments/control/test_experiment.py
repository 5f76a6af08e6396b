"""The continuous-control experiments, end to end at toy size, in real environments."""

import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from toy_experiment import PLAN, TOY, read_table

from lobsdice.cli.commands.control import MuJoCo
from lobsdice.data.files import write_csv
from lobsdice.environments.tasks import behaviour
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.control import fleet
from lobsdice.experiments.control.experiment import (
    EXPERIMENTS,
    experiment,
    settings_of,
    write_tables,
)
from lobsdice.experiments.control.grid import COMPARED, CONDITIONS, Grid, Trial
from lobsdice.experiments.settings import claim


def test_the_papers_tables_have_the_runs_that_they_should():
    grid = Grid()
    counts = {name: len(found.trials(grid)) for name, found in EXPERIMENTS.items()}
    tasks = 12 * 5
    assert counts == {
        "mujoco": len(COMPARED) * tasks,
        "fewer_demonstrations": 3 * tasks,
        "subsampled": len(COMPARED) * tasks,
        "idm_error": tasks,
        "gamma_one": 2 * tasks,
        "mixtures": len(CONDITIONS) * len(COMPARED) * tasks,
    }
    mixtures = {(env, mixture) for env, mixture in grid.tasks()}
    assert ("halfcheetah", (400, 500, 500)) in mixtures and ("ant", (100, 1000, 1000)) in mixtures
    subsampled = EXPERIMENTS["subsampled"].trials(grid)[0]
    assert (subsampled.demonstrations, subsampled.subsample) == (50, 20)
    assert {t.columns()["gamma"] for t in EXPERIMENTS["gamma_one"].trials(grid)} == {0.99, 1.0}


# The tests of docs/experiments run the two experiments that train LobsDICE alone.
@pytest.mark.parametrize("name", ["mujoco", "subsampled", "idm_error"])
def test_an_experiment_leaves_its_tables_and_figure(name, files, tmp_path):
    grid = Grid(env=("hopper",), algorithms=("bc", "bco"), seeds=1, sizes=(1,), expert=1)
    paths = experiment(name, grid, PLAN, tmp_path, data=files)
    assert all(path.exists() for path in paths)
    rows = read_table(tmp_path / "scores.csv")
    expected = EXPERIMENTS[name].trials(grid)
    assert len(rows) == len(expected) and {row["step"] for row in rows} == {"8"}
    curve = EXPERIMENTS[name].curve
    assert {str(t.columns()[curve]) for t in expected} == {row[curve] for row in rows}
    for path in (tmp_path / "runs").iterdir():
        names = {p.name for p in path.rglob("*")}
        assert {"config.json", "metrics.csv", "trials.json", "last-0.safetensors"} <= names
        assert "checkpoint.safetensors" not in names
    if name == "idm_error":
        assert all(float(row["inverse_expert_error"]) > 0 for row in rows)


def test_all_harder_mixtures_of_both_versions_train_in_one_program(files, tmp_path, begun):
    grid = Grid(env=("hopper",), algorithms=("bc",), seeds=1, sizes=(1,), expert=1)
    experiment("mixtures", grid, PLAN, tmp_path, data=files)
    assert begun == [[(0, i) for i in range(len(CONDITIONS))]]
    rows = read_table(tmp_path / "scores.csv")
    assert [(row["environment"], row["expert"], row["fragment"]) for row in rows] == [
        ("hopper", "20", ""),
        ("hopper", "5", ""),
        ("hopper", "0", ""),
        ("hopper", "1", "50"),
        ("hopper-noisy", "1", ""),
    ]
    assert len({row["score"] for row in rows}) == len(rows)
    groups = [row["group"] for row in read_table(tmp_path / "aggregate.csv")]
    assert groups == [*CONDITIONS, "all"]


def test_what_is_finished_is_not_run_again(files, tmp_path, begun):
    first = Grid(env=("hopper",), algorithms=("bc",), seeds=1, sizes=(1,), expert=1)
    experiment("mujoco", first, PLAN, tmp_path, data=files)
    before = (tmp_path / "scores.csv").read_text()
    experiment("mujoco", first, PLAN, tmp_path, data=files)
    assert len(begun) == 1 and (tmp_path / "scores.csv").read_text() == before
    # The same holds if only the table is left and another seed and size are requested.
    for path in sorted((tmp_path / "runs").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    more = Grid(env=("hopper",), algorithms=("bc",), seeds=2, sizes=(1, 2), expert=1)
    experiment("mujoco", more, PLAN, tmp_path, data=files)
    assert begun[1:] == [[(1, 0), (0, 1), (1, 2)]]
    rows = read_table(tmp_path / "scores.csv")
    assert len(rows) == 4 and before.splitlines()[1] in (tmp_path / "scores.csv").read_text()
    # The tables contain all runs of the folder, not only those of the last command.
    experiment("mujoco", first, PLAN, tmp_path, data=files)
    assert [(r["medium"], r["seeds"]) for r in read_table(tmp_path / "summary.csv")] == [
        ("1", "2"),
        ("2", "2"),
    ]
    assert read_table(tmp_path / "aggregate.csv")[0]["tasks"] == "2"


def test_runs_of_another_experiment_are_reused_and_cut(files, tmp_path, begun):
    grid = Grid(env=("hopper",), algorithms=("lobsdice",), seeds=1, sizes=(1,), expert=1)
    longer, short, both = (tmp_path / name for name in ("longer", "short", "both"))
    experiment("mujoco", grid, replace(PLAN, steps=16), longer, data=files)
    experiment("mujoco", grid, PLAN, short, data=files)
    experiment("gamma_one", grid, PLAN, both, data=files, reuse=[longer])
    assert len(begun) == 3  # twice with discount, once without
    known, fresh = read_table(both / "scores.csv")
    assert (known["gamma"], fresh["gamma"]) == ("0.99", "1.0")
    assert known == read_table(longer / "scores.csv")[0]
    assert [known] == read_table(short / "scores.csv")  # the first steps of a longer run are a run


def test_runs_that_did_not_measure_what_is_asked_are_not_reused(files, tmp_path, begun):
    grid = Grid(env=("hopper",), algorithms=("bco",), seeds=1, sizes=(1,), expert=1)
    plain, labelled, again = (tmp_path / name for name in ("plain", "labelled", "again"))
    experiment("mujoco", grid, PLAN, plain, data=files)
    experiment("idm_error", grid, PLAN, labelled, data=files, reuse=[plain])
    assert (
        len(begun) == 2
        and float(read_table(labelled / "scores.csv")[0]["inverse_expert_error"]) > 0
    )
    experiment("mujoco", grid, PLAN, again, data=files, reuse=[labelled])
    assert len(begun) == 2


def test_runs_of_other_settings_are_not_reused(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    with pytest.raises(LobsDICEError, match="no folder of an experiment"):
        experiment("mujoco", TOY, PLAN, here, reuse=[there])
    cooled = replace(PLAN, cooldown=0.5)
    claim(there, settings_of("mujoco", cooled, "built-in"))
    with pytest.raises(LobsDICEError, match="cooldown differ"):
        experiment("mujoco", TOY, PLAN, here, reuse=[there])
    with pytest.raises(LobsDICEError, match="steps differ"):  # a cooldown depends on them
        experiment("mujoco", TOY, replace(cooled, steps=16), here, reuse=[there])


def test_other_settings_in_the_same_folder_are_refused(tmp_path, monkeypatch):
    claim(tmp_path, settings_of("mujoco", PLAN, "built-in"))
    with pytest.raises(LobsDICEError, match="other settings \\(steps differ"):
        experiment("mujoco", TOY, replace(PLAN, steps=16), tmp_path)
    with pytest.raises(LobsDICEError, match="experiment differ"):
        experiment("gamma_one", TOY, PLAN, tmp_path)
    monkeypatch.setattr(behaviour, "FOLDER", other_policies(tmp_path / "policies"))
    with pytest.raises(LobsDICEError, match="\\(policies differ"):
        experiment("mujoco", TOY, PLAN, tmp_path)


def other_policies(folder: Path) -> Path:
    """The shipped policies, of which one is another."""
    shutil.copytree(behaviour.FOLDER, folder)
    shutil.copy(folder / "ant_medium.npz", folder / "ant_expert.npz")
    return folder


def test_a_failure_is_written_down_and_the_rest_goes_on(files, tmp_path, monkeypatch):
    original = fleet.fleet_of

    def fail(trials, *arguments):
        if trials[0].algorithm == "bc":
            raise LobsDICEError("there is no room")
        return original(trials, *arguments)

    monkeypatch.setattr(fleet, "fleet_of", fail)
    grid = Grid(env=("hopper",), algorithms=("bc", "bco"), seeds=1, sizes=(1,), expert=1)
    experiment("mujoco", grid, PLAN, tmp_path, data=files)
    assert {row["algorithm"] for row in read_table(tmp_path / "scores.csv")} == {"bco"}
    (failure,) = read_table(tmp_path / "failures.csv")
    assert failure["fleet"].startswith("bc-hopper") and "there is no room" in failure["why"]


def test_a_killed_experiment_goes_on_and_ends_as_if_it_had_not_been(files, tmp_path):
    words = "experiment mujoco --env hopper --algorithms bc --seeds 1 --sizes 1 --expert 1"
    words += " --steps 600 --every 20 --batch-size 16 --episodes 1"
    command = [sys.executable, "-m", "lobsdice.cli", *words.split(), "--data", files, "-o"]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = subprocess.Popen([*command, killed], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(killed.glob("runs/*/checkpoint.safetensors")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "scores.csv").exists()
    for folder in (killed, whole):
        subprocess.run([*command, folder], check=True, capture_output=True)
    rows = read_table(whole / "scores.csv")
    assert len(rows) == 30 and rows == read_table(killed / "scores.csv")


def test_at_least_one_program_trains_at_a_time(tmp_path):
    with pytest.raises(LobsDICEError, match="`jobs` is 0; it must be at least 1"):
        MuJoCo(out=tmp_path / "new", jobs=0)()
    assert not (tmp_path / "new").exists()


def test_failures_that_are_no_more_are_not_listed(tmp_path):
    row = Trial("bc", "hopper", (1, 1, 1), 0).columns() | {"step": 1, "score": 1.0}
    write_csv(tmp_path / "scores.csv", [row])
    (tmp_path / "failures.csv").touch()
    paths = write_tables("mujoco", tmp_path)
    assert [path.name for path in paths] == ["summary.csv", "aggregate.csv"]
    assert not (tmp_path / "failures.csv").exists()
