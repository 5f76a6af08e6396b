"""One fleet of an experiment."""

from dataclasses import replace

import numpy as np
import pytest
from toy_experiment import PLAN, TOY

from lobsdice.algorithms import BC
from lobsdice.experiments.control import fleet as program
from lobsdice.experiments.control.episodes import make_source
from lobsdice.experiments.control.fleet import fleet_of
from lobsdice.experiments.control.grid import COMPARED, Grid, Trial
from lobsdice.experiments.control.trials import failures, fleets, run_all
from lobsdice.report.run_record import read_run
from lobsdice.training.folder import describe


def test_trials_on_the_same_data_share_it(files):
    fleet = fleet_of(TOY.trials(["lobsdice"]), PLAN, make_source(files))
    assert [m.data for m in fleet.members] == [0, 0, 1, 1]
    assert [m.seed for m in fleet.members] == [0, 1, 0, 1]
    assert len(fleet.datas) == 2 and len(fleet.datas[1].init) == 5


@pytest.mark.parametrize("penalty", [None, 0.03])
def test_a_plan_gives_its_penalty_to_every_algorithm_with_a_discriminator(files, penalty):
    plan = replace(PLAN, ratio_penalty=penalty)
    grid = Grid(env=("hopper",), algorithms=COMPARED, seeds=1, sizes=(1,), expert=1)
    made = {g[0].algorithm: fleet_of(g, plan, make_source(files)) for g in fleets(grid.trials())}
    algorithms = {name: fleet.members[0].algorithm for name, fleet in made.items()}
    described = {name: describe(algorithm) for name, algorithm in algorithms.items()}
    found = {n: d["ratio_penalty"] for n, d in described.items() if "ratio_penalty" in d}
    own = {"lobsdice": 0.01, "demodicefo": 0.1, "smodice": 0.1, "opolo": 0.1}
    assert found == (own if penalty is None else dict.fromkeys(own, penalty))


def test_a_report_knows_which_runs_of_a_fleet_have_stopped(files, tmp_path, monkeypatch):
    def make_wild(*arguments):
        fleet = fleet_of(*arguments)
        pairs = zip(fleet.members, (np.inf, 3e-4), strict=True)
        members = (replace(m, algorithm=BC(width=4, policy_rate=rate)) for m, rate in pairs)
        return replace(fleet, members=tuple(members))

    monkeypatch.setattr(program, "fleet_of", make_wild)
    trials = [Trial("bc", "hopper", (1, 1, 1), seed) for seed in range(2)]
    (row,) = run_all(trials, PLAN, files, tmp_path)
    assert row["seed"] == 1
    (folder,) = (tmp_path / "runs").iterdir()
    assert read_run(folder).failures == {0: failures(tmp_path)[folder.name]}
