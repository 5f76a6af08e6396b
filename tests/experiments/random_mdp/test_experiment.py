"""The experiment from end to end, at toy size."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from lobsdice.errors import LobsDICEError
from lobsdice.experiments.random_mdp import experiment as random_mdp, storage
from lobsdice.experiments.random_mdp.experiment import experiment
from lobsdice.experiments.random_mdp.learners import curves
from lobsdice.experiments.random_mdp.settings import Settings

TOY = Settings(
    betas=(0.1, 1.0),
    experts=(10, 1000),
    offlines=(1, 1000),
    horizon=60,
    states=12,
    actions=2,
    gamma=0.9,
)
SEEDS = 4


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("random_mdp")
    experiment(TOY, SEEDS, folder, workers=1)
    return folder


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / random_mdp.TABLE).open(newline="") as file:
        return list(csv.DictReader(file))


def mean_of(folder: Path, algorithm: str, alpha: float | None, *cell: float) -> float:
    def at(row):
        return tuple(float(row[key]) for key in ("beta", "n_expert", "n_offline"))

    (found,) = [
        float(row["mean"])
        for row in rows_of(folder)
        if row["algorithm"] == algorithm
        and at(row) == cell
        and (alpha is None or float(row["alpha"]) == alpha)
    ]
    return found


def test_the_table_has_a_row_for_each_cell_and_curve(finished):
    rows = rows_of(finished)
    assert len(rows) == 2 * 2 * 2 * len(curves(TOY))
    assert {row["algorithm"] for row in rows} == {
        "BC", "BCO", "DemoDICEfO", "OPOLO", "SMODICE", "LobsDICE",
    }  # fmt: skip
    assert {row["seeds"] for row in rows} == {str(SEEDS)}


def test_no_learner_fails_anywhere_and_distances_are_distances(finished):
    for row in rows_of(finished):
        assert row["failures"] == "0"
        assert 0 <= float(row["mean"]) <= 1
        assert 0 <= float(row["standard_error"]) < 0.5
        assert 0 <= float(row["unsupported_expert_mass"]) <= 1


def test_little_data_leaves_expert_mass_unsupported(finished):
    def mass(offline):
        return [
            float(row["unsupported_expert_mass"])
            for row in rows_of(finished)
            if row["n_offline"] == offline
        ]

    assert min(mass("1")) > 0.1
    assert max(mass("1000")) < 0.01


def test_lobsdice_with_a_small_alpha_is_the_nearest_where_dynamics_are_stochastic(finished):
    most = (1.0, 1000, 1000)
    ours = mean_of(finished, "LobsDICE", TOY.small_alpha, *most)
    others = [mean_of(finished, name, None, *most) for name in ("OPOLO", "BCO", "SMODICE", "BC")]
    assert ours < 0.5 * min(others)
    assert ours < mean_of(finished, "LobsDICE", TOY.alpha, *most)


def test_cloning_the_data_ignores_the_expert(finished):
    at = [mean_of(finished, "BC", None, 1.0, expert, 1000) for expert in (10, 1000)]
    assert at[0] == at[1]


def test_figures_are_written_as_png_and_svg(finished):
    for stem in ("random_mdp", "random_mdp_log"):
        assert (finished / f"{stem}.png").read_bytes()[:4] == b"\x89PNG"
        assert "</svg>" in (finished / f"{stem}.svg").read_text()


def test_an_interrupted_run_goes_on_and_gives_the_same_table(finished, tmp_path, monkeypatch):
    solved: list[int] = []
    real = random_mdp.solve_block

    def solve(settings, seeds):
        if len(solved) == 2:
            raise KeyboardInterrupt
        solved.extend(seeds)
        return real(settings, seeds)

    monkeypatch.setattr(random_mdp, "BLOCK", 2)
    monkeypatch.setattr(random_mdp, "solve_block", solve)
    with pytest.raises(KeyboardInterrupt):
        experiment(TOY, SEEDS, tmp_path, workers=1)
    assert not (tmp_path / random_mdp.TABLE).exists()
    assert storage.missing(tmp_path, SEEDS) == [2, 3]

    monkeypatch.setattr(random_mdp, "BLOCK", 1)
    monkeypatch.setattr(
        random_mdp, "solve_block", lambda p, seeds: solved.extend(seeds) or real(p, seeds)
    )
    experiment(TOY, SEEDS, tmp_path, workers=1)
    assert solved == [0, 1, 2, 3]
    assert (tmp_path / random_mdp.TABLE).read_bytes() == (finished / random_mdp.TABLE).read_bytes()


def test_a_finished_run_repeats_nothing(finished, monkeypatch):
    before = (finished / random_mdp.TABLE).read_bytes()
    monkeypatch.setattr(random_mdp, "solve_block", lambda *_: pytest.fail("repeated"))
    experiment(TOY, SEEDS, finished, workers=1)
    assert (finished / random_mdp.TABLE).read_bytes() == before


def test_a_folder_of_other_settings_is_refused(finished):
    other = replace(TOY, horizon=61)
    with pytest.raises(LobsDICEError, match="horizon differ"):
        experiment(other, SEEDS, finished, workers=1)


def test_one_seed_is_refused(tmp_path):
    with pytest.raises(LobsDICEError, match="at least two seeds"):
        experiment(TOY, 1, tmp_path)


def test_fewer_seeds_than_are_known_are_a_table_of_the_first_ones(finished):
    known = storage.load(finished, SEEDS - 1)
    assert known is not None
    assert known.seeds.tolist() == list(range(SEEDS - 1))
    assert {row["seeds"] for row in random_mdp.table(TOY, known)} == {SEEDS - 1}
