"""The experiment on worlds that end: a toy run, its data, and the grids' exact numbers."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from lobsdice.cli.commands.endings import Endings
from lobsdice.data.prepare import transitions
from lobsdice.environments.tasks.table import WORLDS
from lobsdice.environments.tasks.task import load
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.control import fleet as control
from lobsdice.experiments.endings import exact, fleet
from lobsdice.experiments.endings.experiment import claim_arms, experiment
from lobsdice.experiments.endings.settings import ROLES, Arm, Choice, Settings, Trial
from lobsdice.experiments.endings.trials import fleets
from lobsdice.experiments.endings.worlds import demonstrate, make_data, successes
from lobsdice.training.folder import describe
from lobsdice.training.train import train_fleet

TOY = Choice(worlds=("grid", "grid-noisy"), algorithms=("bc", "bc-successful"), seeds=1)
SMALL = Settings(steps=8, every=4, episodes=2, batch_size=16, set=("width=8",))


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path_factory):
    """Episodes that are recorded once for all of these tests."""
    monkeypatch.setenv("LOBSDICE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def begun(monkeypatch):
    """The fleets that are trained from now on, as the seeds and datasets of their runs."""
    seen, original = [], train_fleet

    def spy(fleet, **options):
        seen.append([(m.seed, m.data) for m in fleet.members])
        return original(fleet, **options)

    monkeypatch.setattr(control, "train_fleet", spy)
    return seen


def read_table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_all_worlds_have_one_role():
    assert sorted(world for worlds in ROLES.values() for world in worlds) == sorted(WORLDS)
    assert Choice().worlds == (*ROLES["choosing"], *ROLES["reporting"])


def test_both_versions_and_all_seeds_of_a_world_are_one_fleet():
    choice = Choice(
        worlds=(*TOY.worlds, "reach"),
        algorithms=("lobsdice", "bc", "bc-successful"),
        terminal=("restart", "stay"),
        seeds=3,
    )
    found = fleets(choice.trials(), Settings())
    named = [({t.arm.name for t in group}, {t.world for t in group}, len(group)) for group in found]
    grids, reach = {"grid", "grid-noisy"}, {"reach"}
    assert named == [
        ({"lobsdice"}, grids, 6),
        ({"lobsdice"}, reach, 3),
        ({"lobsdice-stay"}, grids, 6),
        ({"lobsdice-stay"}, reach, 3),
        ({"bc", "bc-successful"}, grids, 12),
        ({"bc", "bc-successful"}, reach, 6),
    ]


def test_an_experiment_is_trained_once_and_leaves_its_tables(tmp_path, begun):
    experiment(TOY, SMALL, tmp_path, exact=False)
    rows = read_table(tmp_path / "scores.csv")
    assert [(row["arm"], row["world"], row["step"]) for row in rows] == [
        (arm, world, step) for arm in TOY.algorithms for world in TOY.worlds for step in ("4", "8")
    ]
    demonstrators = {r["world"]: r for r in read_table(tmp_path / "demonstrators.csv")}
    assert {row["episodes"] for row in demonstrators.values()} == {"20"}
    for row in rows:
        rate = float(demonstrators[row["world"]]["success"])
        assert float(row["share"]) == pytest.approx(float(row["success"]) / rate)
        assert float(row["return"]) == float(row["success"])
    facts = json.loads((tmp_path / "arms.json").read_text())
    assert facts["bc-successful"]["hyperparameters"]["width"] == 8

    paths = experiment(replace(TOY, seeds=2), SMALL, tmp_path, exact=False)
    assert all(path.exists() for path in paths)
    assert begun == [[(seed, data) for data in range(4)] for seed in range(2)]
    assert len(read_table(tmp_path / "scores.csv")) == 2 * len(rows)
    assert {row["seeds"] for row in read_table(tmp_path / "summary.csv")} == {"2"}

    with pytest.raises(LobsDICEError, match="other settings"):
        experiment(TOY, replace(SMALL, set=()), tmp_path)


def test_an_arm_with_other_hyperparameters_needs_another_folder(tmp_path):
    arm = Arm("mine", "bc", "restart")
    assert claim_arms(tmp_path, [arm], SMALL) == ["mine"] == claim_arms(tmp_path, [arm], SMALL)
    with pytest.raises(LobsDICEError, match=r"of mine with other hyperparameters \(width; see"):
        claim_arms(tmp_path, [arm], Settings())


def test_hyperparameters_reach_the_algorithms_that_have_them():
    others = ("nu-rate=0.25", "width=7")
    given = Settings(ratio_penalty=0.5, alpha=0.2, gamma=0.9, set=others)
    lobsdice, bc = (describe(given.algorithm(name)) for name in ("lobsdice", "bc"))
    wanted = {"ratio_penalty": 0.5, "alpha": 0.2, "gamma": 0.9, "nu_rate": 0.25, "width": 7}
    assert wanted.items() <= lobsdice.items() and bc["width"] == 7


def test_hyperparameters_that_no_algorithm_has_are_refused_and_those_of_others_are_not(capsys):
    clone = [Arm("bc", "bc", "restart")]
    Settings(set=("width=7",)).check(clone)
    assert not capsys.readouterr().err
    Settings(set=("nu-rate=0.25",)).check(clone)  # as lobsdice in the same folder has it
    assert "nu_rate changes nothing here" in capsys.readouterr().err
    with pytest.raises(LobsDICEError, match="no algorithm has the hyperparameter 'nu_rat'"):
        Settings(set=("nu-rat=0.25",)).check(clone)


def test_an_arm_may_have_hyperparameters_of_its_own():
    plain, own = Choice(algorithms=("seabo", "seabo:absorb=true,gamma=0.9")).arms()
    found = Settings(gamma=0.5).algorithm(own.algorithm, own.set)
    assert describe(found)["absorb"] is True and describe(found)["gamma"] == 0.9
    assert describe(Settings(gamma=0.5).algorithm("seabo", plain.set))["gamma"] == 0.5
    assert Arm.from_plain(json.loads(json.dumps(own.to_plain()))) == own
    groups = fleets(
        [Trial(arm, "grid", seed) for arm in (plain, own) for seed in (0, 1)], Settings()
    )
    assert [len(group) for group in groups] == [2, 2]
    nearer = Choice(algorithms=("seabo", "seabo:sharpness=2.0")).arms()  # another real number
    found = fleets([Trial(arm, "grid", seed) for arm in nearer for seed in (0, 1)], Settings())
    assert [len(group) for group in found] == [4]
    with pytest.raises(LobsDICEError, match="bc has no hyperparameter 'absorb'"):
        Settings().algorithm("bc", ("absorb=true",))
    with pytest.raises(LobsDICEError, match="NAME=VALUE"):
        Settings(set=("width",)).named()


def test_a_process_gets_the_settings_of_its_fleet():
    given = json.loads(json.dumps(SMALL.to_plain()))
    assert Settings.from_plain(given) == SMALL != Settings()


def test_each_seed_has_its_own_demonstrations_and_logs():
    arm = Arm("bc", "bc", "restart")
    found = fleet.fleet_of([Trial(arm, "grid", seed) for seed in (0, 1)], SMALL)
    assert [member.data for member in found.members] == [0, 1]
    for mine, data in zip(found.datas, (load("grid", seed=s).data for s in (0, 1)), strict=True):
        assert (mine.offline.s == data.offline.s).all() and (mine.init == data.init).all()
        assert (mine.expert.s == data.expert.s).all()


@pytest.mark.parametrize("world", ["grid", "cartpole-noisy"])
def test_the_oracle_clones_exactly_the_successful_logs(world):
    logs = load(world, seed=1).offline
    if world == "grid":
        good = (logs.observations[logs.ends] == 9).all(axis=1)  # they end at the goal
    else:
        good = (logs.lengths == 250) & ~logs.terminated
    data = make_data(world, 1, oracle=True)
    wanted = transitions(logs.select(np.flatnonzero(good)), normaliser=data.normaliser)
    assert 20 < good.sum() < 60
    assert all((x == y).all() for x, y in zip(data.offline, wanted, strict=True))


def test_an_episode_that_broke_the_simulation_is_no_success():
    assert successes("reach", np.array([1.0, 0.0, np.nan])).tolist() == [True, False, False]
    assert successes("cartpole", np.array([250.0, 249.0])).tolist() == [True, False]


def test_the_exact_chance_of_the_demonstrator_is_what_simulation_gives():
    assert exact.demonstrator_probability("grid") == pytest.approx(1, abs=1e-6)
    chance, episodes = exact.demonstrator_probability("grid-noisy"), 400
    found = successes("grid-noisy", demonstrate("grid-noisy", episodes)).mean()
    assert abs(found - chance) < 4 * np.sqrt(chance * (1 - chance) / episodes)


def test_numbered_episodes_take_the_steps_of_the_table():
    logs, table = load("grid").offline, exact.table_of("grid")
    at = exact.numbered(logs, table).observations[:, 0].astype(int)
    assert (table.transition[at[logs.step_rows], logs.actions, at[logs.step_rows + 1]] == 1).all()


def test_an_exact_solution_reaches_the_goal_unless_nothing_follows_it(monkeypatch):
    monkeypatch.delitem(exact.METHODS, "single-sample")  # slow to compile
    cases = exact.grid_cases(("reach", "grid"), 1, ("restart", "keep"))
    assert cases == [("grid", 0, "restart"), ("grid", 0, "keep")]
    restart, keep = exact.solve_grids(cases, gamma=0.99, alpha=0.1)
    assert float(restart["drawn_success"]) > 0.98 and float(keep["drawn_success"]) < 0.05
    assert restart["drawn_share"] == restart["drawn_success"]  # the demonstrator never fails


def test_the_command_names_worlds_that_exist(tmp_path):
    with pytest.raises(LobsDICEError, match="no world 'maze'"):
        Endings(out=tmp_path, choice=Choice(worlds=("maze",)))()
