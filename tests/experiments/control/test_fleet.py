"""One fleet of an experiment."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from made_runs import make_policy
from toy_experiment import PLAN, TOY

from lobsdice.algorithms import BC
from lobsdice.environments.tasks.table import spec_of
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.control import fleet as program
from lobsdice.experiments.control.episodes import make_source
from lobsdice.experiments.control.fleet import evaluation, fleet_of
from lobsdice.experiments.control.grid import COMPARED, Grid, Plan, Trial
from lobsdice.experiments.control.trials import failures, fleets, run_all
from lobsdice.report.run_record import read_run
from lobsdice.training.folder import describe


def test_every_seed_has_its_own_data_and_other_settings_share_it(files):
    trials = TOY.trials(["lobsdice"]) + TOY.trials(["lobsdice"], gamma=0.5)
    fleet = fleet_of(trials, PLAN, make_source(files))
    assert [m.data for m in fleet.members] == [0, 1, 2, 3] * 2
    assert [m.seed for m in fleet.members] == [0, 1] * 4
    assert len(fleet.datas) == 4 and len(fleet.datas[3].init) == 5
    first, second = (d.expert.s * d.normaliser.scale + d.normaliser.mean for d in fleet.datas[:2])
    assert len(first) == len(second) and not np.isclose(first, second).all(axis=1).any()


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


def test_a_plan_gives_hyperparameters_to_every_algorithm_that_has_them(files):
    plan = replace(PLAN, set=("width=7", "ratio-steps=9"))
    trials = [Trial(name, "hopper", (1, 1, 1), 0) for name in ("bc", "tailo")]
    made = [describe(fleet_of([t], plan, make_source(files)).members[0].algorithm) for t in trials]
    assert [found["width"] for found in made] == [7, 7] and made[1]["ratio_steps"] == 9
    assert Plan.from_plain(json.loads(json.dumps(plan.to_plain()))) == plan
    assert "set" not in PLAN.to_plain()  # earlier tables have no such setting


def test_a_plan_refuses_hyperparameters_that_no_algorithm_has_and_the_discount(capsys):
    replace(PLAN, set=("nu-rate=0.1",)).check(["lobsdice"])
    assert not capsys.readouterr().err
    with pytest.raises(LobsDICEError, match="no algorithm has the hyperparameter 'nu_rat'"):
        replace(PLAN, set=("nu-rat=0.1",)).check(["lobsdice"])
    with pytest.raises(LobsDICEError, match="the discount has a column"):
        replace(PLAN, set=("gamma=0.9",)).check(["lobsdice"])


def test_starts_differ_from_step_to_step_and_are_alike_for_all_runs(files):
    policy = make_policy(spec_of("hopper").action_space, width=11)
    trials = [Trial("bc", "hopper", (1, 1, 1), seed) for seed in range(2)]
    scores = partial(evaluation, trials, PLAN, make_source(files), 1)
    (first, other), (again, _), (later, _) = (scores(step)([policy] * 2) for step in (8, 8, 16))
    assert first == other == again and first["return"] != later["return"]


def test_a_report_knows_which_runs_of_a_fleet_have_stopped(files, tmp_path, monkeypatch):
    def make_wild(*arguments):
        fleet = fleet_of(*arguments)
        wild, tame = (replace(m, algorithm=BC(width=4)) for m in fleet.members)
        # A user cannot set this rate, but it is the surest way to fail.
        object.__setattr__(wild.algorithm, "policy_rate", np.inf)
        return replace(fleet, members=(wild, tame))

    steps = []
    monkeypatch.setattr(program, "evaluation", lambda *a: steps.append(a[-1]) or evaluation(*a))
    monkeypatch.setattr(program, "fleet_of", make_wild)
    trials = [Trial("bc", "hopper", (1, 1, 1), seed) for seed in range(2)]
    (row,) = run_all(trials, PLAN, files, tmp_path)
    assert row["seed"] == 1 and steps == [8]
    (folder,) = (tmp_path / "runs").iterdir()
    assert read_run(folder).failures == {0: failures(tmp_path)[folder.name]}
