"""Callbacks: they see each evaluation, add metrics, stop, and prune."""

from typing import Any

import numpy as np
import pytest
from worlds import noise_data

import lobsdice as ld
from lobsdice.algorithms import BC
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import Policy
from lobsdice.training.callbacks import EarlyStopping, Moment, StopTraining, called
from lobsdice.training.folder import RunFolder
from lobsdice.training.train import train

DATA = noise_data()
#: One compiled program serves all tests that train.
COMMON: dict[str, Any] = {"steps": 20, "every": 5, "batch_size": 4, "seeds": 2}
SMALL = BC(width=8)


def size(policy: Policy) -> float:
    return float(np.abs(np.asarray(policy(np.zeros(3)), float)).max())


def moment(step: int = 5, history=(), **columns) -> Moment:
    rows = [
        {"step": step, "run": i, "seed": i} | {name: x[i] for name, x in columns.items()}
        for i in range(2)
    ]
    return Moment(step, rows, {}, history)


def test_a_callback_sees_rows_policies_and_history_and_its_metrics_are_recorded(tmp_path):
    seen = []

    def largest(now: Moment):
        seen.append(now)
        return {"largest": [size(p) for p in now.policies.values()], "one": 1}

    logged = []
    loggers = [logged.extend, ld.TensorBoard(tmp_path / "board")]
    run = train(SMALL, DATA, out=tmp_path / "run", callbacks=[largest], loggers=loggers, **COMMON)
    assert [now.step for now in seen] == [5, 10, 15, 20] and run.stopped is None
    assert [len(now.history) for now in seen] == [0, 2, 4, 6]
    assert all(isinstance(policy, Policy) for policy in seen[0].policies.values())
    assert run.rows == logged and {row["one"] for row in run.rows} == {1.0}
    for i, policy in enumerate(run.policies):
        assert run.rows[-2 + i]["largest"] == size(policy) > 0
    assert RunFolder(tmp_path / "run").rows() == run.rows
    boards = sorted(path.parent.name for path in tmp_path.glob("board/*/events*"))
    assert boards == ["run-0", "run-1"]
    assert all(b"largest" in path.read_bytes() for path in tmp_path.glob("board/*/events*"))


def test_a_later_callback_sees_the_metrics_of_an_earlier_one():
    callbacks = [lambda now: {"a": 1}, lambda now: {"b": [row["a"] + 1 for row in now.rows]}]
    rows, stopped = called(callbacks, moment())
    assert [(row["a"], row["b"]) for row in rows] == [(1, 2)] * 2 and stopped is None


def test_a_training_that_is_stopped_keeps_all_up_to_that_step_and_can_be_resumed(tmp_path, capsys):
    def stop(now: Moment):
        if now.step == 10:
            raise StopTraining("enough")

    out = tmp_path / "run"
    run = train(SMALL, DATA, out=out, callbacks=[stop], **COMMON)
    assert run.stopped == "enough" and [row["step"] for row in run.rows] == [5, 5, 10, 10]
    assert "training stopped at step 10: enough" in capsys.readouterr().err
    whole = train(SMALL, DATA, **COMMON)
    assert run.rows == whole.rows[:4]
    resumed = train(SMALL, DATA, out=out, resume=True, **COMMON)
    assert resumed.rows == whole.rows and resumed.stopped is None


def test_an_own_error_such_as_that_of_a_pruned_trial_reaches_the_caller(tmp_path):
    class Pruned(Exception):
        pass

    def prune(now: Moment):
        if now.step == 15:
            raise Pruned

    with pytest.raises(Pruned):
        train(SMALL, DATA, out=tmp_path / "run", callbacks=[prune], **COMMON)
    assert RunFolder(tmp_path / "run").rows()[-1]["step"] == 10


@pytest.mark.parametrize(
    "mode, patience, values, end",
    [
        ("max", 2, [1, 2, 3, 2, 3, 9], 5),  # neither of the last two is above 3
        ("min", 2, [5, 4, 4, 4, 1], 4),
        ("max", 3, [1, 2, 1, 2, 3], None),
        ("max", 1, [1, np.nan], 2),
    ],
)
def test_early_stopping_waits_until_no_run_gets_better(mode, patience, values, end):
    """The first run never gets better, the second one has the values."""
    stopping, history, ended = EarlyStopping("x", patience=patience, mode=mode), [], None
    for step, value in enumerate(values, start=1):
        now = moment(step, tuple(history), x=[0.0, value])
        history += now.rows
        if called([stopping], now)[1] and ended is None:
            ended = step
    assert ended == end


def test_early_stopping_decides_the_same_in_a_resumed_training(tmp_path):
    """The criterion is a loss that never falls by 1000, so the first evaluation stays the best."""
    rule = EarlyStopping("policy_loss", mode="min", patience=2, least=1000)
    whole = train(SMALL, DATA, callbacks=[rule], **COMMON)
    assert whole.rows[-1]["step"] == 15 and "policy_loss" in (whole.stopped or "")

    def interrupt(rows):
        if rows[0]["step"] == 10:
            raise KeyboardInterrupt

    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(SMALL, DATA, out=out, callbacks=[rule], loggers=[interrupt], **COMMON)
    again = train(SMALL, DATA, out=out, callbacks=[rule], resume=True, **COMMON)
    assert again.rows == whole.rows and again.stopped == whole.stopped


@pytest.mark.parametrize(
    "metrics, words",
    [
        ({"x": [1, 2, 3]}, "'x', which is neither a number nor 2 of them"),
        ({"x": "much"}, "'x', which is neither a number nor 2"),
        ({"seed": 3}, "'seed', but there is one of that name"),
        (7.0, "float; it must return metrics"),
    ],
)
def test_metrics_that_are_none_are_a_sentence(metrics, words):
    def own(now):
        return metrics

    with pytest.raises(LobsDICEError, match=f"the callback own returned .*{words}"):
        called([own], moment())


def test_a_metric_that_does_not_exist_is_a_sentence():
    scored: Any = {"return": [1, 2]}
    with pytest.raises(LobsDICEError, match="no metric 'retrun' to stop by; there are: return"):
        called([EarlyStopping("retrun")], moment(**scored))
    with pytest.raises(LobsDICEError, match="'max' or 'min'"):
        EarlyStopping("return", mode="best")  # pyright: ignore[reportArgumentType]
    with pytest.raises(LobsDICEError, match="patience"):
        EarlyStopping("return", patience=0)


def test_the_names_of_the_page_are_public():
    assert ld.EarlyStopping is EarlyStopping and ld.StopTraining is StopTraining
    assert ld.TensorBoard.__module__ == ld.WandB.__module__ == "lobsdice.training.loggers"
