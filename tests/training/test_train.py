"""Training as users call it: resumed, refused, failing, evaluated on the way."""

import itertools
import re
import threading
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from worlds import noise_data

from lobsdice.algorithms import BC, LobsDICE
from lobsdice.algorithms.base import Defaults, hyperparameters
from lobsdice.algorithms.bc import Nets
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import load_policy
from lobsdice.training import fleet as fleets
from lobsdice.training.engine import Member, Options, run_chunk
from lobsdice.training.fleet import Fleet, default_every, split
from lobsdice.training.select import select
from lobsdice.training.train import train

DATA = noise_data()
SMALL = BC(width=8)
#: What all tests share, so that one compiled program serves most of them.
COMMON: dict[str, Any] = {"steps": 20, "every": 5, "batch_size": 4}


def common(**changes: Any) -> dict[str, Any]:
    return COMMON | changes


@pytest.fixture
def single_precision():
    """As users have it; the tests are run with twice that unless told otherwise."""
    with jax.enable_x64(False):
        yield


def contents(folder) -> dict[str, bytes]:
    """All that a run leaves, but for config.json."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "config.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def interrupt_at(step: int):
    """A logger at whose hands the run ends."""

    def log(rows):
        if rows[0]["step"] == step:
            raise KeyboardInterrupt

    return log


class Judge:
    """An evaluation with given returns, one after the other; 0 when it is tried at the start."""

    def __init__(self, *returns: float):
        self.returns = [0, *returns]

    def __call__(self, policies):
        value = self.returns.pop(0)
        return [{"return": value - i} for i, _ in enumerate(policies)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run = train(SMALL, DATA, out=folder, evaluate=Judge(1, 3, 2, 2), **COMMON)
    return folder, run


@pytest.mark.parametrize("step, returns", [(5, (1, 3, 2, 2)), (15, (2, 2))])
def test_an_interrupted_run_ends_with_the_same_bits(tmp_path, whole, step, returns):
    out = tmp_path / "run"
    judge = Judge(1, 3, 2, 2)
    with pytest.raises(KeyboardInterrupt):
        train(SMALL, DATA, out=out, evaluate=judge, loggers=[interrupt_at(step)], **COMMON)
    assert contents(out) != contents(whole[0])
    again = train(SMALL, DATA, out=out, evaluate=Judge(*returns), resume=True, **COMMON)
    assert contents(out) == contents(whole[0])
    assert again.table() == whole[1].table()
    for x, y in zip(again.policies + again.best, whole[1].policies + whole[1].best, strict=True):
        assert all(map(np.array_equal, x.weights, y.weights))


def test_a_finished_run_comes_back_as_it_was(whole):
    folder, run = whole
    before = contents(folder)
    again = train(SMALL, DATA, out=folder, resume=True, **COMMON)
    assert again.table() == run.table() and contents(folder) == before
    assert all(map(np.array_equal, again.policy.weights, run.policy.weights))
    assert all(map(np.array_equal, again.best[0].weights, run.best[0].weights))


def test_without_a_folder_the_outcome_is_the_same(whole):
    run = train(SMALL, DATA, evaluate=Judge(1, 3, 2, 2), **COMMON)
    assert run.table() == whole[1].table()
    assert all(map(np.array_equal, run.policy.weights, whole[1].policy.weights))


def test_the_last_and_the_best_policy_are_kept(whole, tmp_path):
    folder, run = whole
    kept = {
        name: load_policy(folder / f"policies/{name}-0.safetensors") for name in ("last", "best")
    }
    assert all(map(np.array_equal, kept["last"].weights, run.policy.weights))
    assert all(map(np.array_equal, kept["best"].weights, run.best[0].weights))
    early = train(SMALL, DATA, out=tmp_path / "x", evaluate=Judge(1, 3, 2, 4), **COMMON)
    assert all(map(np.array_equal, early.best[0].weights, early.policy.weights))
    assert not np.array_equal(run.best[0].weights[0], run.policy.weights[0])


def test_a_return_that_is_no_number_is_not_the_best_and_hides_none(whole):
    run = train(SMALL, DATA, evaluate=Judge(np.nan, 3, 2, np.nan), **COMMON)
    assert all(map(np.array_equal, run.best[0].weights, whole[1].best[0].weights))


def test_the_policy_with_the_least_error_on_the_demonstrations_is_kept(whole, tmp_path):
    """As `select` would take it, whatever the returns; also where a run was interrupted."""
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(ERRATIC, DATA, out=out, loggers=[interrupt_at(15)], **COMMON)
    run = train(ERRATIC, DATA, out=out, resume=True, **COMMON)
    errors = [row["demonstration_error"] for row in run.table()]
    least = errors.index(min(errors))
    assert least < 3  # not the last
    best, *_ = select([out], checkpoints=True)
    assert best.step == 5 * (least + 1)
    path = out / "policies" / "selected-0.safetensors"
    assert best.policy == path
    short = train(ERRATIC, DATA, **common(steps=best.step))
    assert all(map(np.array_equal, load_policy(path).weights, short.policy.weights))
    assert all(map(np.array_equal, run.selected[0].weights, short.policy.weights))


def test_the_table_is_tidy(whole):
    rows = whole[1].table()
    assert [row["step"] for row in rows] == [5, 10, 15, 20]
    assert [row["return"] for row in rows] == [1, 3, 2, 2]
    columns = ["step", "run", "seed", "return", "policy_loss"]
    columns += ["demonstration_error", "held_out_policy_loss"]
    assert all(list(row) == columns for row in rows)


CHANGES = {
    "policy_rate": ({"algorithm": replace(SMALL, policy_rate=1e-3)}, r"policy_rate: 0.0003 before"),
    "width": ({"algorithm": BC(width=4)}, "algorithm.width: 8 before, 4 now"),
    "algorithm": ({"algorithm": LobsDICE()}, 'algorithm.name: "BC" before, "LobsDICE" now'),
    "seeds": ({"seeds": [1]}, r"runs\[0\].seed: 0 before, 1 now"),
    "count": ({"seeds": 2}, "number of runs: 1 before, 2 now"),
    "steps": ({"steps": 40}, "options.steps: 20 before, 40 now"),
    "batch_size": ({"batch_size": 8}, "options.batch_size: 4 before, 8 now"),
    "every": ({"every": 10}, "every: 5 before, 10 now"),
    "data": ({"data": noise_data(seed=1)}, "the data has changed"),
}


@pytest.mark.parametrize("change, sentence", CHANGES.values(), ids=list(CHANGES))
def test_another_run_is_not_resumed(whole, change, sentence):
    before = contents(whole[0])
    arguments = (
        {"algorithm": SMALL, "data": DATA, "out": whole[0], "resume": True} | COMMON | change
    )
    with pytest.raises(LobsDICEError, match=f"cannot be resumed as this one: .*{sentence}"):
        train(**arguments)
    assert contents(whole[0]) == before


def test_there_must_be_something_to_resume(tmp_path, whole):
    with pytest.raises(LobsDICEError, match="is not a run folder"):
        train(SMALL, DATA, out=tmp_path / "nothing", resume=True, **COMMON)
    with pytest.raises(LobsDICEError, match="already holds a run"):
        train(SMALL, DATA, out=whole[0], **COMMON)


@hyperparameters
class Growing(Defaults):
    """Behaviour cloning whose weights are multiplied after each step."""

    growth: float = 1.0
    policy_rate: float = 3e-4
    penalty_every: int = 1

    def init(self, key, state_size, space):
        return SMALL.init(key, state_size, space)

    def loss(self, nets, batch, key, *, penalised):
        return SMALL.loss(nets, batch, key, penalised=penalised)

    def rates(self, step):
        return Nets(self.policy_rate)

    def after_step(self, nets):
        return jax.tree.map(lambda x: x * self.growth, nets)


SOUND, OTHER = Growing(), Growing(policy_rate=1e-3)
#: Its policy is worse after each step than before.
ERRATIC = Growing(growth=1.5)
#: Its outputs overflow in the second chunk of five steps.
ABSURD = Growing(growth=50.0)


def test_a_run_that_fails_stops_with_step_quantity_and_hint(tmp_path, single_precision):
    out, seen = tmp_path / "run", []

    def evaluate(policies):
        seen.extend(policies)
        return [{"return": 0.0}]

    with pytest.raises(LobsDICEError) as caught:
        train(ABSURD, DATA, out=out, evaluate=evaluate, **COMMON)
    found = re.search(
        r"run 0 \(seed 0\) stopped at step (\d+), .*finite: (.*); try", str(caught.value)
    )
    assert found and 5 <= int(found[1]) < 10 and "gradient" in found[2]
    kept = load_policy(out / "policies" / "last-0.safetensors")
    tried, evaluated = seen
    assert all(map(np.array_equal, kept.weights, evaluated.weights))
    assert not np.array_equal(tried.weights[0], evaluated.weights[0])
    with pytest.raises(LobsDICEError, match=re.escape(str(caught.value))):
        train(ABSURD, DATA, out=out, resume=True, **COMMON)


def fleet_of(*algorithms, out=None, evaluate=None):
    return train(algorithms, DATA, out=out, evaluate=evaluate, **COMMON)


def test_in_a_fleet_only_the_failing_run_stops_counting(tmp_path, capsys, single_precision):
    sound = fleet_of(SOUND, SOUND, OTHER)
    capsys.readouterr()
    run = fleet_of(SOUND, ABSURD, OTHER, out=tmp_path / "run")
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(lines) == 1 and lines[0] == f"warning: {run.failures[1]}" and len(run.failures) == 1
    assert [row["step"] for row in run.table() if row["run"] == 1] == [5]
    for i in (0, 2):
        ours, theirs = ([row for row in x.table() if row["run"] == i] for x in (run, sound))
        assert ours == theirs and len(ours) == 4
        assert all(map(np.array_equal, run.policies[i].weights, sound.policies[i].weights))
    assert all(np.isfinite(w).all() for policy in run.policies for w in policy.weights)
    again = train([SOUND, ABSURD, OTHER], DATA, out=tmp_path / "run", resume=True, **COMMON)
    assert again.failures == run.failures and again.table() == run.table()


def test_a_run_that_fails_at_once_is_not_recorded_and_leaves_no_policy(tmp_path, single_precision):
    seen = []

    def evaluate(policies):
        seen.append(len(policies))
        assert all(np.isfinite(w).all() for policy in policies for w in policy.weights)
        return [{"return": 1.0}] * len(policies)

    hopeless = Growing(policy_rate=1e30)
    run = fleet_of(SOUND, hopeless, OTHER, out=tmp_path / "run", evaluate=evaluate)
    assert seen == [3] * 5 and {row["run"] for row in run.table()} == {0, 2}
    names = {path.name for path in (tmp_path / "run" / "policies").iterdir()}
    kinds = ("last", "best", "selected")
    assert names == {f"{which}-{i}.safetensors" for which in kinds for i in (0, 2)}
    assert all(np.isfinite(w).all() for w in run.policies[1].weights)  # the untrained one


def test_training_goes_on_during_an_evaluation(monkeypatch):
    """The first evaluation ends only when another chunk of training has begun."""
    begun, chunks = threading.Event(), []

    def counted(*arguments, **options):
        chunks.append(1)
        if len(chunks) == 2:
            begun.set()
        return run_chunk(*arguments, **options)

    def evaluate(policies):
        assert not chunks or begun.wait(60)  # it is tried before the first
        return [{"return": 0.0}]

    monkeypatch.setattr(fleets, "run_chunk", counted)
    train(SMALL, DATA, evaluate=evaluate, **COMMON)
    assert len(chunks) == 4


def test_an_error_in_an_evaluation_ends_the_run():
    def evaluate(policies):
        raise LobsDICEError("the environment is gone")

    with pytest.raises(LobsDICEError, match="the environment is gone"):
        train(SMALL, DATA, evaluate=evaluate, **COMMON)


def test_loggers_get_the_rows_of_each_step(whole):
    heard = []
    run = train(SMALL, DATA, evaluate=Judge(1, 3, 2, 2), loggers=[heard.extend], **COMMON)
    assert heard == run.table() == whole[1].table()


def test_without_a_terminal_a_short_training_says_its_outcome_alone(capsys):
    train(SMALL, DATA, evaluate=Judge(1, 3, 2, 2), **COMMON)
    lines = [line for line in capsys.readouterr().err.splitlines() if "Training" not in line]
    assert lines[0] == "compiling ..." and len(lines) == 2
    assert re.match(r"step 20: return 2, policy_loss \S+, demonstration_error \S+, ", lines[1])


def test_a_long_training_says_a_line_a_minute(capsys, monkeypatch):
    """By a clock that moves on by 25 s whenever someone looks at it."""
    clock = itertools.count(0, 25)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    train(SMALL, DATA, evaluate=Judge(*[1] * 20), **common(every=1))
    lines = [line for line in capsys.readouterr().err.splitlines() if "Training" in line]
    times = [int(line.split(", ")[1].split()[0]) for line in lines]
    assert len(lines) > 5 and min(np.diff(times)[:-1]) >= 60
    assert all("step " in line and "return 1" in line for line in lines[1:-1])


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ({"steps": 0}, "`steps` is 0; it must be at least 1"),
        ({"batch_size": 0}, "`batch_size` is 0; it must be at least 1"),
        ({"every": 0}, "`every` is 0; it must be at least 1"),
        ({"cooldown": -1.0}, "`cooldown` is -1.0; it must be between 0 and 1"),
        ({"seeds": 0}, "the fleet has no runs"),
        (
            {"algorithm": LobsDICE(calibrate=True), "hold_out": False},
            "`calibrate` needs held-out rows, but `hold_out` is False",
        ),
        ({"seeds": [-1]}, "a seed is -1"),
        ({"algorithm": [SMALL, BC(width=4)]}, "may differ in seed, data and real-valued"),
        ({"data": [DATA, noise_data(discrete=True)]}, "must agree in states and actions"),
    ],
)
def test_what_cannot_be_trained_is_a_sentence(arguments, sentence):
    with pytest.raises(LobsDICEError, match=sentence):
        train(**{"algorithm": SMALL, "data": DATA} | COMMON | arguments)


def fleet(steps: int, block: int) -> Fleet:
    member = Member(LobsDICE(penalty_every=block), options=Options(steps=steps))
    return Fleet((member,), (DATA,))


@pytest.mark.parametrize("steps", [1, 7, 160, 1000, 100_000, 123_456, 1_000_000])
@pytest.mark.parametrize("block", [1, 8, 3000])
def test_chunks_are_whole_blocks_and_about_fifty(steps, block):
    every = default_every(fleet(steps, block))
    assert every % block == 0
    assert every == block or 25 <= steps / every < 52


@pytest.mark.parametrize("steps", [1, 16, 400, 999, 2000, 20_000, 20_001])
@pytest.mark.parametrize("block", [1, 8, 3000])
def test_pieces_are_whole_blocks_but_for_a_last_shorter_one(steps, block):
    *pieces, last = split(steps, block)
    assert sum(pieces) + last == steps
    assert all(piece % block == 0 for piece in pieces)
    assert last < block or last % block == 0
    assert max([*pieces, last]) <= max(1000, block)
    assert len(set(pieces)) <= 2
    if steps % 2000 == 0 and block <= 8:
        assert {*pieces, last} == {1000}


def test_pieces_do_not_change_the_outcome(monkeypatch):
    """How often the progress bar moves is no part of the result."""
    whole = train(SMALL, DATA, **common(every=20))
    monkeypatch.setattr(fleets, "PIECE", 5)
    pieces = train(SMALL, DATA, **common(every=20))
    assert all(map(np.array_equal, whole.policy.weights, pieces.policy.weights))
    assert jax.tree.map(np.shape, whole.policy.weights)[0] == (3, 8)
