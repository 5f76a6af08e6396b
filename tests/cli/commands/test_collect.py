"""`lobsdice data collect`, run as a user runs it."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from lobsdice.cli.commands.collect import Collect
from lobsdice.data.formats import read
from lobsdice.environments.tasks.table import BUILT_IN


def test_collect_writes_a_file_a_source(lobsdice, tmp_path):
    words = ("data", "collect", "hopper", "--expert", "0", "--medium", "0", "--random", "2")
    result = lobsdice(*words, "-o", tmp_path)
    assert result.code == 0 and result.out.endswith(f"wrote {tmp_path}\n")
    assert os.listdir(tmp_path) == ["random.npz"]
    assert len(read(tmp_path / "random.npz")) == 2
    (report,) = json.loads(lobsdice(*words, "-o", tmp_path, "--json").out)
    assert report["episodes"] == 2


def test_each_task_has_its_own_sources(lobsdice, tmp_path):
    words = ("--expert", "1", "--wrong", "2", "--hasty", "0", "--random", "1")
    reports = json.loads(lobsdice("data", "collect", "grid", *words, "-o", tmp_path, "--json").out)
    assert [report["episodes"] for report in reports] == [1, 2, 1]
    assert sorted(os.listdir(tmp_path)) == ["expert.npz", "random.npz", "wrong.npz"]
    result = lobsdice("data", "collect", "grid", "--medium", "1", "-o", tmp_path)
    assert result.code == 2
    assert result.err.endswith("'medium'; its sources are expert, wrong, hasty, random\n")


def test_without_numbers_there_is_what_training_takes_by_default():
    counts = {task: Collect(task, out=Path("x")).counts() for task in ("hopper", "reach")}
    assert counts["hopper"] == {"expert": 105, "medium": 500, "random": 500}
    assert counts["reach"] == {"expert": 35, "wrong": 90, "hasty": 90, "random": 90}


def test_every_source_has_an_option():
    options = {field.name for field in fields(Collect)}
    assert all(options.issuperset(spec.sources) for spec in BUILT_IN.values())


def test_collect_knows_its_tasks(lobsdice, tmp_path):
    result = lobsdice("data", "collect", "swimmer", "-o", tmp_path)
    assert result.code == 2 and "hopper" in result.err and len(result.err.splitlines()) == 1


def test_an_interrupted_collection_says_so_and_writes_nothing(tmp_path):
    code = (
        "import sys; from lobsdice import cli, console; console.SECONDS_BETWEEN_LINES = 0;"
        "sys.exit(cli.main(['data', 'collect', 'hopper', '--workers', '2', '-o', 'data']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("Collecting hopper")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted" and "Traceback" not in err
    assert not list(tmp_path.iterdir())
