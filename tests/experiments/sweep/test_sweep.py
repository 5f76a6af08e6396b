"""Sweeps: settings in rounds, dropped at rungs, each as if it had trained alone."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from worlds import noise

from lobsdice.algorithms import BC
from lobsdice.cli import main
from lobsdice.data.formats import write
from lobsdice.errors import LobsDICEError
from lobsdice.executors.job import Event
from lobsdice.experiments.sweep import fleet, sweep as sweeps
from lobsdice.experiments.sweep.fleet import Rung
from lobsdice.experiments.sweep.space import Choice, Range, read_space, static
from lobsdice.experiments.sweep.study import open_study
from lobsdice.experiments.sweep.sweep import Plan, sweep
from lobsdice.policies.policy import load_policy
from lobsdice.report import sweep_page
from lobsdice.training.engine import Options
from lobsdice.training.folder import RunFolder, read_rows
from lobsdice.training.recipe import Recipe

SPACE = ("policy-rate=1e-4..1e-1:log", "average=0.0,0.9")
PLAN = Plan(settings=5, runs=4, rungs=2)
STEPS, EVERY = 12, 2


def recipe(folder: Path, **changes) -> Recipe:
    write(folder / "demos.npz", noise(40, seed=1))
    write(folder / "logs.npz", noise(80, seed=0))
    given = {"algorithm": BC(width=8), "training": Options(steps=STEPS, batch_size=8), **changes}
    files = {"expert": (str(folder / "demos.npz"),), "offline": (str(folder / "logs.npz"),)}
    return Recipe(out=folder / "sweep", **files, **given)


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> SimpleNamespace:
    """A sweep of five settings with two seeds each, interrupted in its second round."""
    folder = tmp_path_factory.mktemp("sweep")
    mine = recipe(folder, seeds=2)
    space = read_space(SPACE, mine)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        decide, calls = sweeps.Sweep._decide, []

        def interrupted(*arguments):
            calls.append(arguments)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return decide(*arguments)

        patch.setattr(sweeps.Sweep, "_decide", interrupted)
        sweep(mine, space, PLAN, every=EVERY)
    sweep(mine, space, PLAN, every=EVERY)
    return SimpleNamespace(recipe=mine, folder=mine.out, rows=read_rows(mine.out / "settings.csv"))


def test_every_setting_is_told_about_once(done):
    assert sorted(row["setting"] for row in done.rows) == [0, 1, 2, 3, 4]
    assert {row["state"] for row in done.rows} == {"complete", "pruned"}
    assert all(row["step"] == (12 if row["state"] == "complete" else 4) for row in done.rows)
    values = [row["value"] for row in done.rows if row["state"] == "complete"]
    assert values == sorted(values)


def test_the_best_third_of_the_first_round_goes_on(done):
    """Two of four, because a third of four is more than one."""
    kept = json.loads((done.folder / "rounds" / "00000" / "4.json").read_text())
    rows = RunFolder(done.folder / "rounds" / "00000" / "4-0").rows()
    errors = {i: [] for i in range(4)}
    for row in rows:
        if row["step"] == 4:
            errors[row["run"] // 2].append(row["demonstration_error"])
    best = sorted(errors, key=lambda i: np.mean(errors[i]))[:2]
    assert sorted(kept) == sorted(best)


def test_a_setting_that_others_were_dropped_beside_ends_as_if_it_had_been_alone(done):
    """Its value after two rungs is that of a training that nothing was cut from."""
    row = next(row for row in done.rows if row["state"] == "complete")
    mine = BC(width=8, policy_rate=row["policy_rate"])
    options = Options(steps=STEPS, batch_size=8, average=row["average"])
    alone = recipe(done.folder.parent, algorithm=mine, training=options, seeds=2, every=EVERY)
    run = alone.train({})
    last = [r["demonstration_error"] for r in run.rows if r["step"] == STEPS]
    assert row["value"] == pytest.approx(np.mean(last), rel=1e-4)


class Here:
    """An executor that runs the program of each fleet in this process, from its words alone."""

    cores = 1

    def run(self, jobs):
        for job in jobs:
            assert job.arguments[:3] == sweeps.PROGRAM
            fleet.train(Path(job.arguments[3]), Rung.from_plain(json.loads(job.arguments[4])))
            yield Event(job, "ended")


def test_an_executor_finds_the_same_values(done, tmp_path):
    mine = recipe(tmp_path, seeds=2)
    plan = replace(PLAN, settings=4)
    sweep(mine, read_space(SPACE, mine), plan, executor=Here(), every=EVERY)
    first = {row["setting"]: row for row in done.rows if row["setting"] < 4}
    found = {row["setting"]: row for row in read_rows(mine.out / "settings.csv")}
    assert found == first


def test_the_policies_of_a_setting_are_where_the_table_says(done):
    row = done.rows[0]
    folder = done.folder / row["folder"]
    policy = load_policy(RunFolder(folder).policy_path("selected", row["run"]))
    assert policy.normaliser.mean.shape == (3,)


def test_a_sweep_that_is_complete_is_not_repeated(done):
    before = (done.folder / "study.journal").read_bytes()
    sweep(done.recipe, read_space(SPACE, done.recipe), PLAN, every=EVERY)
    assert len(read_rows(done.folder / "settings.csv")) == 5
    assert (done.folder / "study.journal").read_bytes()[: len(before)] == before
    with pytest.raises(LobsDICEError, match="holds results of other settings"):
        sweep(done.recipe, read_space(SPACE[:1], done.recipe), PLAN, every=EVERY)


def test_a_sweep_may_be_quiet_and_go_on_with_other_jobs(tmp_path, capfd):
    mine = recipe(tmp_path)
    files = ["--expert", *mine.expert, "--offline", *mine.offline, "--out", str(mine.out)]
    sizes = "--steps 2 --batch-size 8 --width 8 --settings 1 --rungs 1 --space average=0,0.9"
    command = ["sweep", "bc", *files, *sizes.split()]
    assert main([*command, "--quiet"]) == 0
    assert capfd.readouterr().err == ""
    assert main([*command, "--jobs", "2"]) == 0
    assert main([*command[:-1], "average=0,0.5"]) == 2
    assert "other settings (space.average" in capfd.readouterr().err


@pytest.mark.parametrize("words", ["--tensorboard", "--wandb mine", "--keep selected"])
def test_options_that_a_sweep_does_not_use_are_refused(words, tmp_path, capsys):
    mine = recipe(tmp_path)
    files = ["--expert", *mine.expert, "--offline", *mine.offline, "--out", str(mine.out)]
    sizes = "--steps 2 --batch-size 8 --width 8 --settings 1 --rungs 1 --space average=0,0.9"
    assert main(["sweep", "bc", *files, *sizes.split(), *words.split()]) == 2
    assert f"a sweep does not use {words.split()[0]};" in capsys.readouterr().err
    assert not mine.out.exists()


def test_a_page_shows_all_settings_and_what_matters(done, capsys):
    assert main(["report", str(done.folder)]) == 0
    page = (done.folder / "report.html").read_text()
    assert page.count("<polyline") == 5 and "PED-ANOVA" in page
    assert "5 settings of policy_rate and average" in page


def test_an_axis_goes_from_the_smallest_value_to_the_largest():
    assert sweep_page.scale([1.0, 2.0, 3.0]) == {1.0: 0.0, 2.0: 0.5, 3.0: 1.0}
    assert sweep_page.scale([1e-4, 1e-2, 1.0])[1e-2] == pytest.approx(0.5)
    assert sweep_page.scale(["b", "a"]) == {"a": 0.0, "b": 1.0}
    assert sweep_page.scale([4.0]) == {4.0: 0.5}


def test_studies_of_two_programs_share_a_journal(tmp_path):
    space = {"x": Range(0.0, 1.0, False)}
    one, other = (open_study(tmp_path, space, larger_is_better=True) for _ in range(2))
    assert (list(one.ask(2)), list(other.ask(1))) == ([0, 1], [2])
    assert one.keep({0: 1.0, 1: 2.0}, 5) == [1]
    assert other.keep({2: 3.0}, 5) == [2]
    one.tell(1, 2.0)
    other.tell(2, float("nan"))
    states = {row["setting"]: row["state"] for row in one.rows()}
    assert states == {0: "running", 1: "complete", 2: "fail"} and other.unfinished() == {0}


def test_programs_that_begin_together_try_different_settings(tmp_path):
    """A study draws the same settings again in another folder, if they are asked for alike."""
    space = {"alpha": Range(0.01, 1.0, log=True), "width": Choice((8, 16))}

    def tried(folder):
        both = [open_study(folder, space, larger_is_better=True) for _ in range(2)]
        return [study.ask(4) for study in both]

    one, other = found = tried(tmp_path / "a")
    assert len({setting["alpha"] for setting in (one | other).values()}) == 8
    assert tried(tmp_path / "b") == found


def test_rungs_grow_threefold_and_end_with_the_last_step():
    assert Plan(rungs=3).stops(900, 10) == [100, 300, 900]
    assert Plan(rungs=1).stops(900, 10) == [900]
    assert Plan(rungs=3).stops(2, 1) == [1, 2]


def test_a_space_is_read_and_its_mistakes_are_named(tmp_path):
    mine = recipe(tmp_path)
    found = read_space(("policy_rate=1e-4..1", "width=8,16"), mine)
    assert found == {"policy_rate": Range(1e-4, 1.0, False), "width": Choice((8, 16))}
    assert static({"width": 8, "policy_rate": 0.1}) == (("width", 8),)
    for text, sentence in {
        "alhpa=0..1": "there is no hyperparameter 'alhpa'",
        "width=8..16": "width is not a real number; list its values",
        "width=a,b": "'a,b' is not a list of values of type int",
        "policy_rate=2..1": "LOW below HIGH",
        "policy_rate": "has no values",
        "policy_rate=-1..1": "`policy_rate` is -1.0",
    }.items():
        with pytest.raises(LobsDICEError, match=sentence):
            read_space((text,), mine)
    with pytest.raises(LobsDICEError, match="name what varies with --space"):
        read_space((), mine)
