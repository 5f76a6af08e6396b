"""Leads over other methods in made-up tables with known answers."""

import numpy as np

from lobsdice.experiments.comparisons import compare, grouped


def method(values):
    """The values of each task, with two seeds that differ by 2 in the same way for all methods."""
    return {f"task {i}": {0: x - 1.0, 1: x + 1.0} for i, x in enumerate(map(float, values))}


def compared(**others):
    methods = {"first": method(range(12))} | {name: method(x) for name, x in others.items()}
    groups = {"all": [f"task {i}" for i in range(12)], "few": ["task 0", "task 1"]}
    found = compare(methods, "first", groups)
    return {(row.group, row.other): row.columns(2) for row in found}


def test_a_method_that_is_better_in_all_of_twelve_tasks_is_ahead():
    row = compared(worse=np.arange(12) - np.arange(1, 13))["all", "worse"]
    assert (row["lead"], row["lead_low"], row["lead_high"]) == ("6.50", "6.50", "6.50")
    assert float(row["lead_tasks_low"]) < 5.5 and float(row["lead_tasks_high"]) > 7.5
    assert (row["tasks"], row["seeds"], row["better"], row["worse"]) == (12, 2, 12, 0)
    assert (row["wilcoxon_p"], row["sign_flip_p"]) == ("0.0005", "0.0005")  # 2 / 2^12
    assert (row["adjusted_p"], row["verdict"]) == ("0.0005", "ahead")


def test_a_large_lead_in_one_task_is_not_enough():
    close = [x + 0.1 * x * (-1) ** x for x in range(1, 12)]
    row = compared(other=[-1000, *close])["all", "other"]
    assert float(row["lead"]) > 80 and row["verdict"] == "open"


def test_two_tasks_decide_nothing_and_worse_is_behind():
    better = np.arange(12) + np.arange(1, 13)
    found = compared(better=better)
    assert found["all", "better"]["verdict"] == "behind"
    assert found["few", "better"]["verdict"] == "open"


def test_the_number_of_others_is_corrected_for():
    """One negative difference of rank two: p = 3 · 2 / 2^12 for each of them alone."""
    close = {f"other {i}": np.arange(12) - [1, -2, *range(3, 13)] for i in range(7)}
    alone = compared(close=close["other 0"])["all", "close"]
    many = compared(**close)["all", "other 0"]
    assert alone["wilcoxon_p"] == many["wilcoxon_p"] == "0.0015"
    assert (alone["adjusted_p"], many["adjusted_p"]) == ("0.0015", "0.0103")


def test_runs_without_a_partner_are_left_out():
    methods = {"first": {"a": {0: 1.0, 1: 5.0}, "b": {0: 1.0}}, "other": {"a": {0: 0.0}, "c": {}}}
    (row,) = compare(methods, "first", {"all": ["a", "b", "c"], "none": ["b"]})
    assert row.group == "all" and row.differences.tolist() == [[1.0]]


def test_a_task_counts_with_all_its_seeds_where_another_has_fewer():
    """Leads 1 (two seeds) and 3 (four seeds): each task has the same weight, and is one unit."""
    ours = {"a": {0: 0.0, 1: 2.0}, "b": {0: 1.0, 1: 1.0, 2: 5.0, 3: 5.0}}
    theirs = {task: dict.fromkeys(seeds, 0.0) for task, seeds in ours.items()}
    (row,) = compare({"first": ours, "other": theirs}, "first", {"all": ["a", "b"]})
    columns = row.columns(2)
    assert (columns["lead"], columns["seeds"], columns["better"]) == ("2.00", "2 to 4", 2)
    # Means of the first task are between 0 and 2, those of the second between 1 and 5.
    assert 0.5 <= float(columns["lead_low"]) < 1.1 and 2.9 < float(columns["lead_high"]) <= 3.5
    assert columns["wilcoxon_p"] == columns["sign_flip_p"] == "0.5000"  # 2 / 2^2


def test_groups_are_named_only_if_there_are_several():
    assert grouped([1, 2, 3], lambda x: "odd" if x % 2 else "even") == {
        "odd": [1, 3],
        "even": [2],
        "all": [1, 2, 3],
    }
    assert grouped([1, 3], lambda x: "odd") == {"all": [1, 3]}
