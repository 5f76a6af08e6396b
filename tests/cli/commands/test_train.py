"""`lobsdice train`, `resume` and `evaluate`, in this process and in others that get killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from made_runs import make_run
from worlds import noise

from lobsdice.algorithms import BC, Algorithm, LobsDICE
from lobsdice.cli.commands.train import print_outcome
from lobsdice.data.ends import describe_ends
from lobsdice.data.episodes import Episodes, concatenate
from lobsdice.data.formats import write
from lobsdice.data.recordings import Recordings
from lobsdice.equations.terminal import Terminal
from lobsdice.errors import DataWarning
from lobsdice.training.engine import Options
from lobsdice.training.folder import RunFolder, fingerprint
from lobsdice.training.recipe import Recipe
from lobsdice.training.select import CRITERION

COMMAND = [sys.executable, "-m", "lobsdice.cli"]
#: Forty checkpoints, a few milliseconds apart.
SIZES = ["--width", "8", "--batch-size", "8", "--steps", "640", "--every", "16"]
TIMEOUT = 240
#: Tests that need an uninterrupted run share one process.
with_whole_run = pytest.mark.xdist_group("whole run")


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """A folder with demonstrations and recordings."""
    folder = tmp_path_factory.mktemp("world")
    write(folder / "demos.npz", noise(40, seed=1).without_actions())
    write(folder / "logs.npz", noise(80, seed=0))
    return folder


@pytest.fixture(scope="module")
def start(world):
    """Start a command in the world's folder."""

    def start(*words, command=COMMAND) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, *map(str, words)],
            cwd=world,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def training(out: Path) -> list[str]:
    data = ["--expert", "demos.npz", "--offline", "logs.npz"]
    return ["train", "lobsdice", *data, *SIZES, "--out", str(out)]


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, out, err


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a run folder except config.json."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "config.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def whole(world, start) -> Path:
    """The folder of an uninterrupted run."""
    code, out, err = finish(start(*training(world / "whole")))
    assert code == 0, err
    assert out == f"policies: {world / 'whole' / 'policies'}\n"
    assert "compiling ..." in err and "step 640: " in err
    return world / "whole"


def ends_like(whole: Path, out: Path, start) -> None:
    code, _, err = finish(start("resume", out))
    assert code == 0, err
    assert contents(out) == contents(whole)


def wait_for(process: subprocess.Popen[str], condition) -> None:
    limit = time.monotonic() + TIMEOUT
    while not condition():
        assert process.poll() is None, "the process has ended before its time"
        assert time.monotonic() < limit
        time.sleep(0.0005)


def checkpoints(out: Path, count: int):
    """Return a condition: so many checkpoints have been written from now on."""
    path, seen = out / "checkpoint.safetensors", set()

    def condition() -> bool:
        if path.exists():
            seen.add(path.stat().st_mtime_ns)
        return len(seen) > count

    condition()
    return condition


@with_whole_run
def test_killed_at_any_moment_a_run_ends_with_the_same_bits(tmp_path, whole, start):
    out = tmp_path / "run"
    moments = [
        lambda: (out / "config.json").exists(),
        lambda: any(out.glob(".*")),  # while a file is written
        checkpoints(out, 8),
    ]
    process = start(*training(out))
    for moment in moments:
        wait_for(process, moment)
        process.send_signal(signal.SIGKILL)
        assert finish(process)[0] == -signal.SIGKILL
        process = start("resume", out)
    assert finish(process)[0] == 0
    assert contents(out) == contents(whole)


@with_whole_run
def test_ctrl_c_says_how_to_go_on(tmp_path, whole, start):
    out = tmp_path / "run"
    process = start(*training(out))
    wait_for(process, (out / "checkpoint.safetensors").exists)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    hint = f"to go on from the last checkpoint: lobsdice resume {out}"
    assert err.splitlines()[-2:] == [hint, "interrupted"] and "Traceback" not in err
    ends_like(whole, out, start)


LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from lobsdice.cli import main
sys.exit(main())
"""


@with_whole_run
def test_a_full_disk_is_one_line_and_corrupts_nothing(tmp_path, whole, start):
    """The limit on the size of a file is just below the size of metrics.csv."""
    out = tmp_path / "run"
    limit = (whole / "metrics.csv").stat().st_size - 100
    process = start(limit, *training(out), command=[sys.executable, "-c", LIMITED])
    code, _, err = finish(process)
    assert code == 2 and "Traceback" not in err
    assert re.match(rf"error: cannot write {out}\S*: File too large", err.splitlines()[-1])
    assert not [path for path in out.rglob(".*")]
    ends_like(whole, out, start)


@with_whole_run
def test_a_resumed_run_finds_its_files_from_another_working_folder(world, whole):
    """It is resumed from another working folder."""
    result = subprocess.run(
        [*COMMAND, "resume", whole, "--json"],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["steps"] == 640 and report["failures"] == [] and len(report["runs"]) == 1


def test_an_output_folder_that_cannot_be_used_is_refused_at_once(lobsdice, world, tmp_path):
    data = ["--expert", tmp_path / "missing.npz", "--offline", world / "logs.npz"]
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "config.json").touch()
    file = world / "logs.npz"
    for out, sentence in {taken: "already holds a run; resume it", file: "is a file"}.items():
        result = lobsdice("train", "bc", *data, "--out", out)
        assert result.code == 2 and sentence in result.err and len(result.err.splitlines()) == 1


def small(world, *words, algorithm="bc", expert="demos.npz") -> list:
    """Return a command that trains for a few steps."""
    sizes = ["--width", 8, "--batch-size", 4, "--steps", 20, "--every", 10]
    data = ["--expert", world / expert, "--offline", world / "logs.npz"]
    return [str(word) for word in ("train", algorithm, *data, *sizes, *words)]


def test_training_says_whether_the_files_fit_and_how_it_ended(lobsdice, world, tmp_path):
    out = tmp_path / "run"
    result = lobsdice(*small(world, "--out", out, algorithm="lobsdice"))
    assert result.code == 0, result.err
    lines = result.err.splitlines()
    (audit,) = (line for line in lines if line.startswith("audit: "))
    files = f"--expert {world / 'demos.npz'} --offline {world / 'logs.npz'}"
    assert "units alike" in audit and audit.endswith(f"(more: lobsdice audit {files})")
    closing = lines[-1]
    assert closing.startswith("learned from 4 demonstrations (40 steps) and 8 logged episodes (80")
    assert re.search(r"; weights spread over \d+% of the logs; ", closing)
    assert "by offline measures" in closing
    said, _, trial = closing.rpartition("; before deploying: ")
    assert said.endswith((f"; next: lobsdice report {out}", f"lobsdice audit {files}"))
    assert trial == f"lobsdice select {out}"


def test_training_may_be_quiet_and_without_an_audit(lobsdice, world, tmp_path):
    result = lobsdice(*small(world, "--out", tmp_path / "a", "--no-audit"))
    assert result.code == 0 and "audit: " not in result.err and "learned from" in result.err
    result = lobsdice(*small(world, "--out", tmp_path / "b", "--quiet"))
    assert (result.code, result.err) == (0, "")
    assert result.out == f"policies: {tmp_path / 'b' / 'policies'}\n"
    assert lobsdice("resume", tmp_path / "b", "--quiet") == result


def test_demonstrations_need_no_actions_if_a_model_infers_them(lobsdice, world, tmp_path):
    result = lobsdice(*small(world, "--out", tmp_path, "--json", algorithm="bco"))
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["failures"] == [] and "inverse_error" in report["runs"][0]


def test_actions_of_the_expert_come_from_its_file_or_from_another_or_are_asked_for(
    lobsdice, world, tmp_path
):
    write(world / "labelled.npz", noise(40, seed=1))
    kind = {"algorithm": "demodice"}
    result = lobsdice(*small(world, "--out", tmp_path / "one", expert="labelled.npz", **kind))
    assert result.code == 0, result.err
    words = ["--out", tmp_path / "two", "--labelled", world / "labelled.npz"]
    result = lobsdice(*small(world, *words, **kind))
    assert result.code == 0, result.err
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    result = lobsdice(*small(world, "--out", tmp_path / "three", **kind))
    assert result.code == 2 and result.err.endswith("has none; name some with --labelled\n")


@pytest.mark.parametrize("below", ["logs.npz", "forbidden"])
def test_an_output_folder_that_cannot_be_made_is_one_line(lobsdice, world, below):
    if below == "forbidden":
        (world / below).mkdir(mode=0o500, exist_ok=True)
        if os.access(world / below, os.W_OK):
            pytest.skip("this user may write anywhere")
    result = lobsdice(*small(world, "--out", world / below / "run"))
    assert result.code == 2
    *_, last = result.err.splitlines()
    assert re.fullmatch(r"error: cannot write .*(Not a directory|Permission denied)", last)


def test_changed_data_is_not_resumed(lobsdice, tmp_path):
    write(tmp_path / "demos.npz", noise(40, seed=1).without_actions())
    write(tmp_path / "logs.npz", noise(80, seed=0))
    assert lobsdice(*small(tmp_path, "--out", tmp_path / "run")).code == 0
    write(tmp_path / "logs.npz", noise(80, seed=2))
    result = lobsdice("resume", tmp_path / "run")
    assert result.code == 2
    assert result.err.endswith("cannot be resumed as this one: the data has changed\n")


def recipe_of(world: Path, out: Path, terminal: Terminal, algorithm: Algorithm) -> Recipe:
    return Recipe(
        out=out,
        expert=(str(world / "demos.npz"),),
        offline=(str(world / "logs.npz"),),
        training=Options(terminal=terminal),
        algorithm=algorithm,
    )


def begin(world: Path, out: Path, terminal: Terminal) -> Path:
    """Write a run folder on the world's files as training would, without the training."""
    recipe, folder = recipe_of(world, out, terminal, LobsDICE(width=8)), RunFolder(out)
    folder.begin(recipe.fleet(recipe.recordings()).config(), recipe.about(["made"]), resume=False)
    folder.write_rows([{"step": 1, "run": 0, "seed": 0, CRITERION: len(terminal)}])
    return out


def test_runs_that_read_ends_differently_are_compared(lobsdice, world, tmp_path):
    folders = [begin(world, tmp_path / terminal, terminal) for terminal in ("restart", "stay")]
    ranked = json.loads(lobsdice("select", *folders, "--by", "error", "--json").out)
    assert [Path(row["folder"]).name for row in ranked] == ["stay", "restart"]
    page = tmp_path / "page.html"
    assert lobsdice("report", folders[0], "--compare", folders[1], "-o", page).code == 0
    (table,) = re.findall(r'<table[^>]*"Differing settings">(.*?)</table>', page.read_text())
    assert re.findall(r"<td[^>]*>(.*?)</td>", table) == ["terminal", "restart", "stay"]


@pytest.mark.parametrize(
    ("terminal", "shown"),
    [
        ("keep", "LobsDICE learned to act from 4 demonstrations (40 transitions)"),
        (
            "drop",
            "Not shown: an earlier version trained it, with another meaning of --terminal drop",
        ),
    ],
)
def test_a_run_of_an_earlier_version_is_reported_on_but_not_resumed(
    lobsdice, world, tmp_path, terminal, shown
):
    """There `terminal` was an option of the data, whose fingerprint did not depend on ends."""
    folder = begin(world, tmp_path / "run", "keep")
    config = json.loads((folder / "config.json").read_text())
    run, settings = config["run"], config["about"]["settings"]
    recipe = Recipe.from_plain(settings)
    (data,) = recipe.fleet(recipe.recordings()).datas
    run["data"][0]["fingerprint"] = fingerprint(data, with_ends=False)
    del run["runs"][0]["options"]["terminal"], settings["training"]["terminal"]
    settings["preparation"]["terminal"] = terminal
    (folder / "config.json").write_text(json.dumps(config))
    assert lobsdice("report", folder, "--no-audit", "--no-clip").code == 0
    assert shown in (folder / "report.html").read_text()
    result = lobsdice("resume", folder)
    assert result.code == 2 and "by an earlier version of lobsdice, without the" in result.err


@pytest.mark.parametrize(
    ("terminal", "algorithm", "sentence"),
    [
        ("restart", LobsDICE(), "after an end a new start follows (--terminal restart)"),
        ("stay", LobsDICE(), "after an end its state repeats for ever (--terminal stay)"),
        ("keep", LobsDICE(), "nothing follows an end, so that ends are avoided (--terminal keep)"),
        ("restart", BC(), "BC does not look at what follows an end"),
    ],
)
def test_training_says_how_episodes_end_and_what_follows(
    world, capsys, tmp_path, terminal, algorithm, sentence
):
    recipe = recipe_of(world, tmp_path, terminal, algorithm)
    expert, offline, _ = recordings = recipe.recordings()
    recipe.tell_ends(recordings)
    counts = describe_ends(expert, offline)
    assert capsys.readouterr().err == f"ends: {counts}; {sentence}\n"


def test_training_warns_of_ends_that_are_probably_a_mistake(world, capsys, tmp_path):
    recipe = recipe_of(world, tmp_path, "restart", LobsDICE())
    expert, offline, _ = recipe.recordings()
    cut = replace(offline, terminated=np.zeros_like(offline.terminated))
    with pytest.warns(DataWarning, match="demonstrations terminate, but no logged episode does"):
        recipe.tell_ends(Recordings(expert, cut))
    never = replace(expert, terminated=np.zeros_like(expert.terminated))
    recipe.tell_ends(Recordings(never, cut))
    assert capsys.readouterr().err.endswith("all 8 logged episodes were truncated\n")


def test_there_must_be_a_run_to_resume_or_evaluate(lobsdice, tmp_path):
    for words in (["resume"], ["evaluate", "--env", "CartPole-v1"]):
        result = lobsdice(words[0], tmp_path, *words[1:])
        assert (result.code, result.err) == (2, f"error: {tmp_path} is not a run folder\n")


def test_a_run_from_python_is_resumed_in_python(lobsdice, tmp_path):
    path = make_run(tmp_path / "run", [None]) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"about": {}}))
    result = lobsdice("resume", tmp_path / "run")
    assert result.code == 2 and "`ld.train(..., resume=True)` continues it" in result.err


@pytest.mark.parametrize(
    "returns, said",
    [([1.0], "1.00"), ([1.0, 3.0], "2.00, the mean of 2 seeds (1.00 to 3.00)")],
)
def test_the_outcome_names_the_worst_and_the_best_seed(capsys, returns, said):
    runs = [{"step": 20, "run": i, "return": value} for i, value in enumerate(returns)]
    print_outcome({"steps": 20, "runs": runs, "failures": [], "policies": "run/policies"})
    assert capsys.readouterr().out.splitlines()[0] == f"return after 20 steps: {said}"


def test_settings_of_another_version_are_not_resumed(lobsdice, tmp_path):
    result = lobsdice("resume", make_run(tmp_path / "run", [None], algorithm={"faith": 3}))
    assert result.code == 2 and "written by another version of lobsdice" in result.err


@pytest.mark.parametrize("words", ["--batch-size 0", "--steps 0", "--ratio-floor -1", "--alpha -1"])
def test_a_setting_outside_its_bounds_is_named_as_it_was_given(lobsdice, tmp_path, words):
    option, value = words.split()
    place = ("--task", "reach", "--out", tmp_path / "a")
    result = lobsdice("train", "lobsdice", *place, option, value)
    assert result.code == 2 and result.err.startswith(f"error: {option} is {value}")


def test_a_missing_package_is_one_line(lobsdice, world, tmp_path, monkeypatch):
    for flag, package, extra in (
        (["--tensorboard"], "tensorboardX", "tensorboard"),
        (["--wandb", "project"], "wandb", "wandb"),
    ):
        for name in [package, *(m for m in sys.modules if m.startswith(f"{package}."))]:
            monkeypatch.setitem(sys.modules, name, None)
        result = lobsdice(*small(world, "--out", tmp_path / "run", *flag))
        assert result.code == 2 and f"needs {package}, which is not installed" in result.err
        assert result.err.endswith(f"pip install 'lobsdice[{extra}]'\n")
        assert not (tmp_path / "run").exists()


def test_an_unknown_environment_is_refused_before_training(lobsdice, world, tmp_path):
    result = lobsdice(*small(world, "--out", tmp_path / "run", "--env", "Nowhere-v0"))
    assert result.code == 2 and "Gymnasium cannot make 'Nowhere-v0'" in result.err
    assert not (tmp_path / "run").exists()


def test_a_world_is_trained_on_by_its_name(lobsdice, tmp_path):
    """Its demonstrations and logs share pairs of states by chance, which is no leak."""
    sizes = ["--width", 8, "--batch-size", 4, "--steps", 4, "--every", 4, "--episodes", 2]
    words = ["train", "bc", "--task", "grid", *sizes, "--out", tmp_path / "run"]
    result = lobsdice(*words, "--mixture", 1, 2, 3)
    assert result.code == 2 and not (tmp_path / "run").exists()
    assert result.err == (
        "error: --mixture has 3 numbers, but grid has 4 sources of episodes: expert, wrong, hasty, "
        "random\n"
    )
    result = lobsdice(*words, "--mixture", 1, 2, 0, 3)
    assert result.code == 0, result.err
    assert "ends: all 5 demonstrations terminated; " in result.err
    assert lobsdice("evaluate", tmp_path / "run", "--episodes", 2).code == 0
    result = lobsdice("report", tmp_path / "run", "--no-audit", "--no-clip")
    assert result.code == 0, result.err
    assert "expert 1, wrong 2, hasty 0, random 3" in (tmp_path / "run/report.html").read_text()


def cartpole(episodes: int, seed: int) -> Episodes:
    """Record random actions in CartPole."""
    env, random = gymnasium.make("CartPole-v1"), np.random.default_rng(seed)
    found = []
    for i in range(episodes):
        states, actions, terminated = [env.reset(seed=1000 * seed + i)[0]], [], False
        while not terminated:  # long before the time limit
            actions.append(int(random.integers(2)))
            state, _, terminated, _, _ = env.step(actions[-1])
            states.append(state)
        found.append(
            Episodes.from_arrays(
                np.stack(states),
                lengths=[len(actions)],
                actions=np.array(actions),
                terminated=[True],
            )
        )
    return concatenate(found)


@pytest.fixture(scope="module")
def carts(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("carts")
    write(folder / "demos.csv", cartpole(3, seed=1).without_actions())
    write(folder / "logs.csv", cartpole(6, seed=0))
    return folder


def test_from_csv_files_to_a_policy_that_balances_a_pole(lobsdice, carts, tmp_path):
    """Discrete actions and two seeds, evaluated during training and afterwards."""
    out = tmp_path / "run"
    data = ["--expert", carts / "demos.csv", "--offline", carts / "logs.csv"]
    sizes = ["--width", 8, "--batch-size", 4, "--steps", 20, "--every", 10, "--seeds", 2]
    where = ["--env", "CartPole-v1", "--episodes", 3]
    result = lobsdice("train", "bc", *data, *sizes, *where, "--out", out, "--json")
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert [row["run"] for row in report["runs"]] == [0, 1] and report["steps"] == 20
    assert len((out / "metrics.csv").read_text().splitlines()) == 5

    def evaluate(*words):
        result = lobsdice("evaluate", *words, "--episodes", 3, "--json")
        assert result.code == 0, result.err
        return json.loads(result.out)

    last = evaluate(out)
    assert last == evaluate(out) and len(last) == 2 and all(8 <= r["return"] <= 500 for r in last)
    for found, row in zip(last, report["runs"], strict=True):
        assert found["return"] == row["return"]  # the same episodes as during training
    best = evaluate(out, "--which", "best")
    assert all(b["return"] >= x["return"] for b, x in zip(best, last, strict=True))
    assert evaluate(out, "--stochastic") != last != evaluate(out, "--seed", 1)
    file = out / "policies" / "last-1.safetensors"
    assert evaluate(file, "--env", "CartPole-v1")[0] == last[1] | {"run": 0}
    table = lobsdice("evaluate", out, "--episodes", 3)
    assert table.code == 0 and "last policy, in CartPole-v1" in table.out
