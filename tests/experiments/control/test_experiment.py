"""The continuous-control experiments, end to end at toy size, in real environments."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest
from worlds import noise

from lobsdice.algorithms import BC
from lobsdice.cli.commands.control import MuJoCo
from lobsdice.data.files import write_csv
from lobsdice.data.formats import write
from lobsdice.environments.tasks.table import SOURCES, TASKS
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.control import trials as runner
from lobsdice.experiments.control.episodes import BuiltIn, Files, make_source
from lobsdice.experiments.control.experiment import (
    EXPERIMENTS,
    aggregate,
    experiment,
    summary,
    write_tables,
)
from lobsdice.experiments.control.grid import COMPARED, Grid, Plan, Trial
from lobsdice.experiments.control.trials import failures, fleets, make_fleet, run_all
from lobsdice.experiments.settings import claim
from lobsdice.report.run_record import read_run
from lobsdice.training.folder import describe
from lobsdice.training.train import train_fleet

PLAN = Plan(steps=8, every=8, batch_size=16, episodes=1)
TOY = Grid(env=("hopper",), algorithms=("lobsdice", "bc"), seeds=2, sizes=(1, 2), expert=1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Recordings as short as they can be, in Hopper's shapes."""
    folder = tmp_path_factory.mktemp("files")
    for seed, source in enumerate(SOURCES):
        episodes = noise(540, width=11, actions=3, seed=seed)
        rewards = np.full(episodes.steps, -seed, np.float32)
        space = TASKS["hopper"].action_space
        write(
            folder / f"hopper_{source}.npz", replace(episodes, rewards=rewards, action_space=space)
        )
    return str(folder / "{env}_{source}.npz")


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# ---- The tables of runs ----


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
    }
    mixtures = {(env, mixture) for env, mixture in grid.tasks()}
    assert ("halfcheetah", (400, 500, 500)) in mixtures and ("ant", (100, 1000, 1000)) in mixtures
    subsampled = EXPERIMENTS["subsampled"].trials(grid)[0]
    assert (subsampled.demonstrations, subsampled.subsample) == (50, 20)
    assert {t.columns()["gamma"] for t in EXPERIMENTS["gamma_one"].trials(grid)} == {0.99, 1.0}


def test_runs_that_share_shapes_are_one_fleet():
    """Walker2d and halfcheetah have as many numbers in their states and actions."""
    groups = fleets(Grid(algorithms=("lobsdice", "bc"), seeds=2, sizes=(1, 2)).trials())
    found = Counter((g[0].algorithm, len(g), len({t.environment for t in g})) for g in groups)
    assert found == {
        (name, n, e): c for name in ("lobsdice", "bc") for n, e, c in [(4, 1, 2), (8, 2, 1)]
    }


def test_trials_on_the_same_data_share_it(files):
    fleet = make_fleet(TOY.trials(["lobsdice"]), PLAN, make_source(files))
    assert [m.data for m in fleet.members] == [0, 0, 1, 1]
    assert [m.seed for m in fleet.members] == [0, 1, 0, 1]
    assert len(fleet.datas) == 2 and len(fleet.datas[1].init) == 5


@pytest.mark.parametrize("plan, penalty", [(PLAN, 0.1), (replace(PLAN, ratio_penalty=0.03), 0.03)])
def test_a_plan_gives_its_penalty_to_every_algorithm_with_a_discriminator(files, plan, penalty):
    grid = Grid(env=("hopper",), algorithms=COMPARED, seeds=1, sizes=(1,), expert=1)
    made = {g[0].algorithm: make_fleet(g, plan, make_source(files)) for g in fleets(grid.trials())}
    algorithms = {name: fleet.members[0].algorithm for name, fleet in made.items()}
    described = {name: describe(algorithm) for name, algorithm in algorithms.items()}
    found = {n: d["ratio_penalty"] for n, d in described.items() if "ratio_penalty" in d}
    assert found == dict.fromkeys(("lobsdice", "demodicefo", "smodice", "opolo"), penalty)


@pytest.mark.parametrize(
    "wrong", [{"env": ("cartpole",)}, {"algorithms": ("gail",)}, {"seeds": 0}, {"sizes": ()}]
)
def test_a_grid_that_cannot_be_is_refused(wrong):
    with pytest.raises(LobsDICEError):
        Grid(**wrong).trials()


# ---- End to end ----


# The two that train LobsDICE alone are run by the tests of their pages in docs/experiments.
@pytest.mark.parametrize("name", ["mujoco", "subsampled", "idm_error"])
def test_an_experiment_leaves_its_tables_and_figure(name, files, tmp_path):
    grid = Grid(env=("hopper",), algorithms=("bc", "bco"), seeds=1, sizes=(1,), expert=1)
    paths = experiment(name, grid, PLAN, tmp_path, data=files)
    assert all(path.exists() for path in paths)
    rows = read(tmp_path / "scores.csv")
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


@pytest.fixture
def begun(monkeypatch):
    """The fleets that get trained from now on."""
    seen, original = [], train_fleet

    def spy(fleet, **options):
        seen.append([(m.seed, m.data) for m in fleet.members])
        return original(fleet, **options)

    monkeypatch.setattr(runner, "train_fleet", spy)
    return seen


def test_what_is_finished_is_not_run_again(files, tmp_path, begun):
    first = Grid(env=("hopper",), algorithms=("bc",), seeds=1, sizes=(1,), expert=1)
    experiment("mujoco", first, PLAN, tmp_path, data=files)
    before = (tmp_path / "scores.csv").read_text()
    experiment("mujoco", first, PLAN, tmp_path, data=files)
    assert len(begun) == 1 and (tmp_path / "scores.csv").read_text() == before
    # Nor when nothing but the table is left of it, and another seed and size are asked for.
    for path in sorted((tmp_path / "runs").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    more = Grid(env=("hopper",), algorithms=("bc",), seeds=2, sizes=(1, 2), expert=1)
    experiment("mujoco", more, PLAN, tmp_path, data=files)
    assert begun[1:] == [[(1, 0), (0, 1), (1, 1)]]
    rows = read(tmp_path / "scores.csv")
    assert len(rows) == 4 and before.splitlines()[1] in (tmp_path / "scores.csv").read_text()
    # Tables and scores are of all that is there, not of what was asked for last.
    experiment("mujoco", first, PLAN, tmp_path, data=files)
    assert [(r["medium"], r["seeds"]) for r in read(tmp_path / "summary.csv")] == [
        ("1", "2"),
        ("2", "2"),
    ]
    assert read(tmp_path / "aggregate.csv")[0]["tasks"] == "2"


def test_runs_of_another_experiment_are_reused_and_cut(files, tmp_path, begun):
    grid = Grid(env=("hopper",), algorithms=("lobsdice",), seeds=1, sizes=(1,), expert=1)
    longer, short, both = (tmp_path / name for name in ("longer", "short", "both"))
    experiment("mujoco", grid, replace(PLAN, steps=16), longer, data=files)
    experiment("mujoco", grid, PLAN, short, data=files)
    experiment("gamma_one", grid, PLAN, both, data=files, reuse=[longer])
    assert len(begun) == 3  # twice with discount, once without
    known, fresh = read(both / "scores.csv")
    assert (known["gamma"], fresh["gamma"]) == ("0.99", "1.0")
    assert known == read(longer / "scores.csv")[0]
    assert [known] == read(short / "scores.csv")  # the first steps of a longer run are a run


def test_a_run_is_taken_whole_from_the_first_folder_that_has_it(tmp_path, begun):
    trials = TOY.trials(["bc"])
    here, first, second = (tmp_path / name for name in ("here", "first", "second"))
    for folder, score, some in ((here, 1, trials[:1]), (first, 2, trials[:2]), (second, 3, trials)):
        rows = [t.columns() | {"step": step, "score": score} for t in some for step in (score, 8)]
        write_csv(folder / "scores.csv", rows)
    run_all([*trials, *trials], PLAN, BuiltIn(), here, reuse=[first, second])
    found = [(row["step"], row["score"]) for row in read(here / "scores.csv")]
    wanted = [("1", "1"), ("8", "1"), ("2", "2"), ("8", "2"), *[("3", "3"), ("8", "3")] * 2]
    assert found == wanted and not begun


def test_runs_that_did_not_measure_what_is_asked_are_not_reused(files, tmp_path, begun):
    grid = Grid(env=("hopper",), algorithms=("bco",), seeds=1, sizes=(1,), expert=1)
    plain, labelled, again = (tmp_path / name for name in ("plain", "labelled", "again"))
    experiment("mujoco", grid, PLAN, plain, data=files)
    experiment("idm_error", grid, PLAN, labelled, data=files, reuse=[plain])
    assert len(begun) == 2 and float(read(labelled / "scores.csv")[0]["inverse_expert_error"]) > 0
    experiment("mujoco", grid, PLAN, again, data=files, reuse=[labelled])
    assert len(begun) == 2


def test_runs_of_other_settings_are_not_reused(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    with pytest.raises(LobsDICEError, match="no folder of an experiment"):
        experiment("mujoco", TOY, PLAN, here, reuse=[there])
    cooled = replace(PLAN, cooldown=0.5)
    claim(there, asdict(cooled) | {"experiment": "mujoco", "data": "built-in"})
    with pytest.raises(LobsDICEError, match="cooldown differ"):
        experiment("mujoco", TOY, PLAN, here, reuse=[there])
    with pytest.raises(LobsDICEError, match="steps differ"):  # what a cooldown depends on
        experiment("mujoco", TOY, replace(cooled, steps=16), here, reuse=[there])


def test_other_settings_in_the_same_folder_are_refused(tmp_path):
    claim(tmp_path, asdict(PLAN) | {"experiment": "mujoco", "data": "built-in"})
    with pytest.raises(LobsDICEError, match="other settings \\(steps differ"):
        experiment("mujoco", TOY, replace(PLAN, steps=16), tmp_path)
    with pytest.raises(LobsDICEError, match="experiment differ"):
        experiment("gamma_one", TOY, PLAN, tmp_path)


def test_a_failure_is_written_down_and_the_rest_goes_on(files, tmp_path, monkeypatch):
    original = runner.make_fleet

    def fail(trials, *arguments):
        if trials[0].algorithm == "bc":
            raise LobsDICEError("there is no room")
        return original(trials, *arguments)

    monkeypatch.setattr(runner, "make_fleet", fail)
    grid = Grid(env=("hopper",), algorithms=("bc", "bco"), seeds=1, sizes=(1,), expert=1)
    experiment("mujoco", grid, PLAN, tmp_path, data=files)
    assert {row["algorithm"] for row in read(tmp_path / "scores.csv")} == {"bco"}
    (failure,) = read(tmp_path / "failures.csv")
    assert failure["fleet"].startswith("bc-hopper") and "there is no room" in failure["why"]


def test_a_report_knows_which_runs_of_a_fleet_have_stopped(files, tmp_path, monkeypatch):
    def make_wild(*arguments):
        fleet = make_fleet(*arguments)
        pairs = zip(fleet.members, (np.inf, 3e-4), strict=True)
        members = (replace(m, algorithm=BC(width=4, policy_rate=rate)) for m, rate in pairs)
        return replace(fleet, members=tuple(members))

    monkeypatch.setattr(runner, "make_fleet", make_wild)
    trials = [Trial("bc", "hopper", (1, 1, 1), seed) for seed in range(2)]
    (row,) = run_all(trials, PLAN, make_source(files), tmp_path)
    assert row["seed"] == 1
    (folder,) = (tmp_path / "runs").iterdir()
    assert read_run(folder).failures == {0: failures(tmp_path)[folder.name]}


def no_room(*arguments):
    raise LobsDICEError("there is no room")


def test_an_experiment_without_any_result_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "make_fleet", no_room)
    with pytest.raises(LobsDICEError, match="no run"):
        run_all([Trial("bc", "hopper", (1, 1, 1), 0)], PLAN, BuiltIn(), tmp_path)


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
    rows = read(whole / "scores.csv")
    assert len(rows) == 30 and rows == read(killed / "scores.csv")


def test_a_table_of_scores_says_where_the_weights_lie_but_no_losses(files, tmp_path):
    (trial,) = Grid(env=("hopper",), algorithms=("lobsdice",), seeds=1, sizes=(1,)).trials()
    fleet = tmp_path / "runs" / "lobsdice-hopper"
    fleet.mkdir(parents=True)
    (fleet / "trials.json").write_text(json.dumps([asdict(trial)]))
    masses = dict(
        zip(("mass_expert", "mass_medium", "mass_random"), (0.5, 0.25, 0.25), strict=True)
    )
    measured = {"step": 8, "run": 0, "score": 50.0, "nu_loss": -1.0, **masses}
    write_csv(fleet / "metrics.csv", [measured])
    (row,) = run_all([trial], PLAN, make_source(files), tmp_path)
    assert row == trial.columns() | {"step": 8, "score": 50.0, **masses}


# ---- Several programs at a time ----


def test_programs_that_train_at_a_time_end_as_they_do_one_by_one(
    files, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("JAX_ENABLE_X64", "1")  # as in this process, for those that are started
    hopper = [Trial(name, "hopper", (1, 1, 1), seed=0) for name in ("bc", "bco")]
    trials = [*hopper, Trial("bc", "ant", (1, 1, 1), seed=0)]  # of which there are no files
    folders = {jobs: tmp_path / f"{jobs}" for jobs in (1, 2)}
    found = {j: run_all(trials, PLAN, make_source(files), f, jobs=j) for j, f in folders.items()}
    assert [row["algorithm"] for row in found[1]] == ["bc", "bco"] and found[1] == found[2]
    assert (folders[1] / "scores.csv").read_bytes() == (folders[2] / "scores.csv").read_bytes()
    ((failed, why),) = failures(folders[2]).items()
    assert "ant_expert.npz" in why and failures(folders[1]) == {failed: why}
    said = capsys.readouterr().err
    assert said.count(f"warning: {failed} failed") == 2 and said.count(": done") == 2
    assert [len(list(f.glob("runs/*/log.txt"))) for f in folders.values()] == [0, 3]


def test_a_program_whose_process_dies_is_written_down(files, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "_train", os._exit)  # which takes no such arguments
    with pytest.raises(LobsDICEError, match="no run"):
        run_all(TOY.trials(), PLAN, make_source(files), tmp_path, jobs=2)
    assert len(found := failures(tmp_path)) == 2
    assert set(found.values()) == {"its process died (exit status 1); see log.txt"}
    assert all("TypeError" in log.read_text() for log in tmp_path.glob("runs/*/log.txt"))


def test_a_program_that_breaks_an_assertion_has_failed(tmp_path):
    fleet = tmp_path / "runs" / "bc-hopper"
    fleet.mkdir(parents=True)
    (fleet / "trials.json").write_text("[]")
    runner._conclude(fleet, -signal.SIGABRT)
    assert failures(tmp_path) == {"bc-hopper": "its process died (exit status -6); see log.txt"}


class Deadly(Files):
    """Kills the process that it is sent to."""

    def __reduce__(self):
        return signal.raise_signal, (signal.SIGKILL,)


def test_a_program_that_a_signal_ended_is_tried_again(files, tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch, pytest.raises(LobsDICEError, match="no run"):
        patch.setattr(runner, "_train", print)  # it never comes to that, nor to importing JAX
        run_all(TOY.trials(), PLAN, Deadly(files), tmp_path, jobs=2)
    assert failures(tmp_path) == {}
    assert capsys.readouterr().err.count("was ended by a signal (Killed), see its log.txt") == 2
    monkeypatch.setattr(runner, "make_fleet", no_room)
    with pytest.raises(LobsDICEError, match="no run"):
        run_all(TOY.trials(), PLAN, make_source(files), tmp_path)
    assert list(failures(tmp_path).values()) == ["LobsDICEError: there is no room"] * 2


def test_at_least_one_program_trains_at_a_time(tmp_path):
    with pytest.raises(LobsDICEError, match="jobs is 0; it must be at least 1"):
        MuJoCo(out=tmp_path / "new", jobs=0)()
    assert not (tmp_path / "new").exists()


# ---- Summaries of a table ----


def table(scores: dict[str, np.ndarray]):
    """Rows with one evaluation on the way, better by 5 for the first seed, and the last one."""
    rows = []
    for name, runs in scores.items():
        for (seed, task), score in np.ndenumerate(runs):
            trial = Trial(name, "hopper", (1, task, task), seed).columns()
            rows.append(trial | {"step": 1, "score": score + 5 * (seed == 0)})
            rows.append(trial | {"step": 2, "score": score})
    return rows


def test_a_summary_has_the_last_and_the_best_of_each_task():
    runs = np.array([[10.0, 50.0], [20.0, 70.0]])
    first, second = summary(table({"bc": runs}), "algorithm")
    assert (first["last_mean"], first["last_standard_error"]) == ("15.00", "5.00")
    assert (first["last_least"], first["best_mean"], first["seeds"]) == ("10.00", "17.50", 2)
    assert (second["last_mean"], second["medium"], second["steps"]) == ("60.00", 1, 2)


def test_failures_that_are_no_more_are_not_listed(tmp_path):
    write_csv(tmp_path / "scores.csv", table({"bc": np.ones((1, 1))}))
    (tmp_path / "failures.csv").touch()
    paths = write_tables("mujoco", tmp_path)
    assert [path.name for path in paths] == ["summary.csv", "aggregate.csv"]
    assert not (tmp_path / "failures.csv").exists()


def test_an_aggregate_is_over_the_last_policies_of_all_tasks():
    runs = {"bc": np.array([[10.0, 50.0], [20.0, 70.0]]), "lobsdice": np.full((2, 2), 99.0)}
    first, second = aggregate(table(runs), "algorithm")
    assert (first["mean"], first["iqm"], first["tasks"], first["seeds"]) == ("37.50", "35.00", 2, 2)
    assert (second["mean_low"], second["iqm_high"]) == ("99.00", "99.00")
    json.dumps([first, second])
