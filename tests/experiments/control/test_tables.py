"""Tables of made-up scores with known answers."""

import json

import numpy as np

from lobsdice.experiments.control.experiment import EXPERIMENTS
from lobsdice.experiments.control.grid import Trial
from lobsdice.experiments.control.tables import aggregate, comparisons, summary

ROLE = EXPERIMENTS["mujoco"].group_of
CONDITION = EXPERIMENTS["mixtures"].group_of
ENVS = ("hopper", "walker2d", "halfcheetah", "ant")


def table(scores: dict[str, np.ndarray]):
    """Rows of two evaluations per run. The first score is 5 higher for seed 0."""
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


def test_an_aggregate_is_over_the_last_policies_of_all_tasks():
    runs = {"bc": np.array([[10.0, 50.0], [20.0, 70.0]]), "lobsdice": np.full((2, 2), 99.0)}
    first, second = aggregate(table(runs), "algorithm", ROLE)
    assert (first["mean"], first["iqm"], first["tasks"], first["seeds"]) == ("37.50", "35.00", 2, 2)
    assert (first["least_task"], first["least_run"], first["group"]) == ("15.00", "10.00", "all")
    assert (first["mean_low"], first["mean_tasks_low"]) == ("30.00", "12.50")
    assert (second["mean_low"], second["mean_tasks_high"]) == ("99.00", "99.00")
    json.dumps([first, second])


def test_runs_are_paired_by_task_and_seed_whatever_their_order():
    """Ten tasks; the lead grows with the task, and a seed that only one of them has is left out."""
    base = np.arange(30.0).reshape(3, 10) % 7
    rows = table({"bc": base[:2], "lobsdice": base + np.arange(1.0, 11)})
    (row,) = comparisons(rows[::-1], "algorithm", ROLE)
    assert (row["algorithm"], row["other"], row["lead"]) == ("lobsdice", "bc", "5.50")
    assert (row["lead_low"], row["lead_high"], row["seeds"]) == ("5.50", "5.50", 2)
    assert (row["sign_flip_p"], row["verdict"]) == ("0.0020", "ahead")  # 2 / 2^10


def test_tasks_that_defaults_were_chosen_on_are_a_group_of_their_own():
    trials = [Trial("bc", env, (100, 500, 500), 0) for env in ENVS]
    rows = [t.columns() | {"step": 1, "score": 1.0} for t in trials]
    found = {row["group"]: row["tasks"] for row in aggregate(rows, "algorithm", ROLE)}
    assert found == {"choosing": 2, "reporting": 2, "all": 4}
    roles = [row["role"] for row in summary(rows, "algorithm")]
    assert roles == ["choosing", "choosing", "reporting", "reporting"]


def test_conditions_are_groups_of_their_own():
    hard = [
        Trial("bc", "hopper", (20, 500, 500), 0),
        Trial("bc", "hopper", (5, 500, 500), 0),
        Trial("bc", "hopper", (0, 500, 500), 0),
        Trial("bc", "hopper", (100, 500, 500), 0, fragment=50),
        Trial("bc", "hopper-noisy", (100, 500, 500), 0),
        Trial("bc", "hopper", (100, 500, 500), 0),
    ]
    rows = [t.columns() | {"step": 1, "score": 1.0} for t in hard]
    groups = [row["group"] for row in aggregate(rows, "algorithm", CONDITION)]
    assert groups == ["few-20", "few-5", "none", "fragments", "noisy", "usual", "all"]
