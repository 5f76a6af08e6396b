"""Choosing among runs by what is known offline."""

import json
import math

import pytest
from made_runs import make_policy

from lobsdice.cli import main
from lobsdice.data.spaces import Box
from lobsdice.errors import LobsDICEError
from lobsdice.training.folder import RunFolder
from lobsdice.training.select import BESIDE, CRITERION, select

POLICY = make_policy(Box((-1.0,), (1.0,)))


def make_run(path, measures, *, data="d", hold_out=True, policies=True):
    """A folder whose runs log, step by step, the given values of the criterion."""
    folder = RunFolder(path)
    options = {"steps": 30, "hold_out": hold_out}
    member = {"algorithm": {"name": "BC"}, "options": options, "seed": 5, "data": 0}
    config = {"runs": [member] * len(measures), "data": [{"fingerprint": data}]}
    folder.begin(config, {}, resume=False)
    rows = [
        {"step": 10 * (i + 1), "run": run, "seed": 5 + run, "return": value, "score": value}
        | {CRITERION: value, BESIDE[0]: 0.2}
        for run, values in enumerate(measures)
        for i, value in enumerate(values)
    ]
    folder.write_rows(sorted(rows, key=lambda row: row["step"]))
    if policies:
        for run in range(len(measures)):
            POLICY.save(folder.policy_path("last", run))
    return path


def places(found):
    return [(c.folder.name, c.run, c.step) for c in found]


def test_runs_are_ranked_at_their_last_step_by_the_criterion(tmp_path):
    one = make_run(tmp_path / "one", [(0.1, 0.3), (0.9, 0.2)])
    two = make_run(tmp_path / "two", [(0.5, 0.25)])
    found = select([one, two])
    assert places(found) == [("one", 1, 20), ("two", 0, 20), ("one", 0, 20)]
    assert found[0].criterion == 0.2 and found[0].beside == {BESIDE[0]: 0.2} and found[0].seed == 6
    assert found[0].policy == one / "policies" / "last-1.safetensors"


def test_all_steps_compete_if_asked_and_two_of_each_run_may_have_a_policy(tmp_path):
    one = make_run(tmp_path / "one", [(0.1, 0.4, 0.3), (0.9, 0.2, 0.2)])
    found = select([one], checkpoints=True)
    assert select(one, checkpoints=True) == select(str(one), checkpoints=True) == found
    assert places(found)[:4] == [("one", 0, 10), ("one", 1, 30), ("one", 1, 20), ("one", 0, 30)]
    assert [c.policy and c.policy.name[:-12] for c in found] == [
        None,
        "last-1",
        None,
        "last-0",
        None,
        None,
    ]
    POLICY.save(RunFolder(one).policy_path("selected", 0))
    (best, *_) = select([one], checkpoints=True)
    assert best.policy == one / "policies" / "selected-0.safetensors"


def test_a_run_that_stopped_early_stands_at_its_last_step_and_one_without_measure_last(tmp_path):
    found = select([make_run(tmp_path / "one", [(0.5, math.nan), (0.4,)], policies=False)])
    assert places(found) == [("one", 1, 10), ("one", 0, 20)]
    assert found[1].criterion == math.inf and found[0].policy is None


def test_returns_and_scores_are_never_looked_at(tmp_path):
    folder = make_run(tmp_path / "one", [(0.1, 0.3), (0.9, 0.2)])
    before = select([folder])
    rows = RunFolder(folder).rows()
    RunFolder(folder).write_rows([{**row, "return": "a secret", "score": ""} for row in rows])
    assert select([folder]) == before


def test_what_cannot_be_ranked_is_a_sentence(tmp_path):
    with pytest.raises(LobsDICEError, match="nothing to choose from"):
        select([])
    with pytest.raises(LobsDICEError, match="is not a run folder"):
        select([tmp_path])
    one = make_run(tmp_path / "one", [(0.1,)])
    for name, change in {"two": {"data": "e"}, "three": {"hold_out": False}}.items():
        other = make_run(tmp_path / name, [(0.1,)], **change)
        with pytest.raises(LobsDICEError, match=f"run 0 of .*one and run 0 of .*{name} cannot"):
            select([one, other])
    with pytest.raises(
        LobsDICEError, match="has no metrics yet: training stopped before its first checkpoint"
    ):
        select([make_run(tmp_path / "four", [()])])
    bare = make_run(tmp_path / "five", [(0.1,)])
    RunFolder(bare).write_rows([{"step": 3, "run": 0, "seed": 0, "policy_loss": 1.0}])
    with pytest.raises(LobsDICEError, match=f"has no {CRITERION} at step 3: it was written by an"):
        select([bare])


def test_a_measure_that_is_not_finite_is_null_in_json(tmp_path, capsys):
    assert (
        main(["select", "--by", "error", str(make_run(tmp_path / "one", [(math.nan,)])), "--json"])
        == 0
    )
    (report,) = json.loads(capsys.readouterr().out)
    assert report[CRITERION] is None and report[BESIDE[0]] == 0.2


def test_the_command_names_the_policy_to_take(tmp_path, capsys):
    one = make_run(tmp_path / "one", [(0.1, 0.3), (0.9, 0.2)])
    assert main(["select", "--by", "error", str(one)]) == 0
    out = capsys.readouterr().out
    assert {"demonstration", "error", "seed"} <= set(out.split())  # headings are not broken
    assert out.splitlines()[-1] == f"take {one}/policies/last-1.safetensors, of step 20"
    assert main(["select", "--by", "error", str(one), "--checkpoints", "--top", "1"]) == 0
    out = capsys.readouterr().out
    assert f"run 0 of {one} has no policy of step 10" in out and "last-1.safetensors" in out
    assert main(["select", "--by", "error", str(one), "--json", "--top", "2"]) == 0
    reports = json.loads(capsys.readouterr().out)
    assert [report["run"] for report in reports] == [1, 0]
    columns = ["folder", "run", "seed", "step", CRITERION, BESIDE[0], "policy"]
    assert list(reports[0]) == columns
    assert main(["select", "--by", "error", str(one), "--top", "0"]) == 2
    assert "--top is 0; it must be at least 1" in capsys.readouterr().err


def test_the_command_leaves_out_what_is_no_run_yet(tmp_path, capsys):
    folder = make_run(tmp_path / "one", [(0.1,)])
    (tmp_path / "page.html").touch()
    begun = make_run(tmp_path / "two", [()])
    assert (
        main(["select", "--by", "error", str(folder), str(tmp_path / "page.html"), str(begun)]) == 0
    )
    assert capsys.readouterr().err.splitlines() == [
        f"left out: {tmp_path / 'page.html'} is not a run folder",
        f"left out: {begun} has no metrics yet: training stopped before its first checkpoint",
    ]
    assert main(["select", "--by", "error", str(tmp_path / "page.html")]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'page.html'} is not a run folder\n"
