"""Tables of trials: finished ones, failed ones, and several fleets at a time."""

import json
import signal
from collections import Counter
from dataclasses import asdict

import pytest
from toy_experiment import PLAN, TOY, read_table

from lobsdice.data.files import write_csv
from lobsdice.errors import LobsDICEError
from lobsdice.executors.local import Local
from lobsdice.experiments.control import fleet, trials as runner
from lobsdice.experiments.control.grid import Grid, Trial
from lobsdice.experiments.control.trials import failures, fleets, run_all
from lobsdice.training.lock import locked


def test_runs_that_share_shapes_are_one_fleet():
    """Walker2d and halfcheetah have states and actions of the same sizes."""
    groups = fleets(Grid(algorithms=("lobsdice", "bc"), seeds=2, sizes=(1, 2)).trials())
    found = Counter((g[0].algorithm, len(g), len({t.environment for t in g})) for g in groups)
    assert found == {
        (name, n, e): c for name in ("lobsdice", "bc") for n, e, c in [(4, 1, 2), (8, 2, 1)]
    }


def test_a_run_is_taken_whole_from_the_first_folder_that_has_it(tmp_path, begun):
    trials = TOY.trials(["bc"])
    here, first, second = (tmp_path / name for name in ("here", "first", "second"))
    for folder, score, some in ((here, 1, trials[:1]), (first, 2, trials[:2]), (second, 3, trials)):
        rows = [t.columns() | {"step": step, "score": score} for t in some for step in (score, 8)]
        write_csv(folder / "scores.csv", rows)
    run_all([*trials, *trials], PLAN, "built-in", here, reuse=[first, second])
    found = [(row["step"], row["score"]) for row in read_table(here / "scores.csv")]
    wanted = [("1", "1"), ("8", "1"), ("2", "2"), ("8", "2"), *[("3", "3"), ("8", "3")] * 2]
    assert found == wanted and not begun


def no_room(*arguments):
    raise LobsDICEError("there is no room")


def test_an_experiment_without_any_result_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet, "fleet_of", no_room)
    with pytest.raises(LobsDICEError, match="no run"):
        run_all([Trial("bc", "hopper", (1, 1, 1), 0)], PLAN, "built-in", tmp_path)


def test_a_table_of_scores_says_where_the_weights_lie_but_no_losses(files, tmp_path):
    (trial,) = Grid(env=("hopper",), algorithms=("lobsdice",), seeds=1, sizes=(1,)).trials()
    fleet = tmp_path / "runs" / "lobsdice-hopper"
    fleet.mkdir(parents=True)
    (fleet / "trials.json").write_text(json.dumps([asdict(trial)]))
    masses = dict(
        zip(("mass_expert", "mass_medium", "mass_random"), (0.5, 0.25, 0.25), strict=True)
    )
    measured = {"step": 8, "run": 0, "seed": 0, "score": 50.0, "nu_loss": -1.0, **masses}
    write_csv(fleet / "metrics.csv", [measured])
    (row,) = run_all([trial], PLAN, files, tmp_path)
    assert row == trial.columns() | {"step": 8, "score": 50.0, **masses}


def test_programs_that_train_at_a_time_end_as_they_do_one_by_one(
    files, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("JAX_ENABLE_X64", "1")  # for the new processes, as in this one
    hopper = [Trial(name, "hopper", (1, 1, 1), seed=0) for name in ("bc", "bco")]
    trials = [*hopper, Trial("bc", "ant", (1, 1, 1), seed=0)]  # there are no files for Ant
    folders = {jobs: tmp_path / f"{jobs}" for jobs in (1, 2)}
    where = {1: None, 2: Local(2)}
    found = {j: run_all(trials, PLAN, files, f, executor=where[j]) for j, f in folders.items()}
    assert [row["algorithm"] for row in found[1]] == ["bc", "bco"] and found[1] == found[2]
    assert (folders[1] / "scores.csv").read_bytes() == (folders[2] / "scores.csv").read_bytes()
    ((failed, why),) = failures(folders[2]).items()
    assert "ant_expert.npz" in why and failures(folders[1]) == {failed: why}
    said = capsys.readouterr().err
    assert said.count(f"warning: {failed} failed") == 2 and said.count(": done") == 2
    assert [len(list(f.glob("runs/*/log.txt"))) for f in folders.values()] == [0, 3]


def test_a_program_whose_process_dies_is_written_down(files, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "PROGRAM", ("-c", "raise TypeError"))
    with pytest.raises(LobsDICEError, match="no run"):
        run_all(TOY.trials(), PLAN, files, tmp_path, executor=Local(2))
    assert len(found := failures(tmp_path)) == 2
    assert set(found.values()) == {"its process died (exit status 1); see log.txt"}
    assert all("TypeError" in log.read_text() for log in tmp_path.glob("runs/*/log.txt"))


def test_a_program_that_breaks_an_assertion_has_failed(tmp_path):
    fleet = tmp_path / "runs" / "bc-hopper"
    fleet.mkdir(parents=True)
    (fleet / "trials.json").write_text("[]")
    runner.conclude(fleet, -signal.SIGABRT)
    assert failures(tmp_path) == {"bc-hopper": "its process died (exit status -6); see log.txt"}


def test_a_fleet_that_another_process_trains_has_not_failed(tmp_path, capsys):
    path = tmp_path / "runs" / "bc-hopper"
    with locked(path):
        with pytest.raises(SystemExit) as stop, fleet.exit_if_busy(), fleet.failures_written(path):
            locked(path).__enter__()
        assert stop.value.code == fleet.BUSY
        runner.conclude(path, fleet.BUSY)
    assert "bc-hopper is being trained by another process" in capsys.readouterr().err
    assert not list(path.iterdir())


def test_a_program_that_a_signal_ended_is_tried_again(files, tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch, pytest.raises(LobsDICEError, match="no run"):
        code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
        patch.setattr(runner, "PROGRAM", ("-c", code))
        run_all(TOY.trials(), PLAN, files, tmp_path, executor=Local(2))
    assert failures(tmp_path) == {}
    assert capsys.readouterr().err.count("was ended by a signal (Killed), see its log.txt") == 2
    monkeypatch.setattr(fleet, "fleet_of", no_room)
    with pytest.raises(LobsDICEError, match="no run"):
        run_all(TOY.trials(), PLAN, files, tmp_path)
    assert list(failures(tmp_path).values()) == ["LobsDICEError: there is no room"] * 2
