"""An algorithm that one decorator registers works in every command."""

import json
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest
from worlds import noise

from lobsdice.algorithms import ALGORITHMS
from lobsdice.data.formats import write

PAGE = Path(__file__).parents[2] / "docs" / "adding_an_algorithm.md"
NAME = "weighted_bc"


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """The skeleton in the documentation, as a module of its own outside the package."""
    (code,) = re.findall(r"```python\n(.*?@register.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / f"{NAME}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module(NAME).WeightedBC
    del ALGORITHMS[NAME], sys.modules[NAME]


def test_a_registered_algorithm_is_listed_trained_resumed_exported_and_reported_on(
    lobsdice, tmp_path, registered
):
    write(tmp_path / "demos.npz", noise(40, seed=1).without_actions())
    write(tmp_path / "logs.npz", noise(80, seed=0))

    def run(*words) -> str:
        result = lobsdice(*words)
        assert result.code == 0, result.err
        return result.out

    listed = {row["name"]: row for row in json.loads(run("algorithms", "--json"))}
    assert listed[NAME]["class_name"] == "WeightedBC"
    assert listed[NAME]["summary"] == registered.summary
    assert registered.summary in run("train", "--help")
    assert "--sharpness" in run("train", NAME, "--help")

    folder = tmp_path / "run"
    data = ("--expert", tmp_path / "demos.npz", "--offline", tmp_path / "logs.npz")
    sizes = ("--width", 8, "--batch-size", 4, "--steps", 16, "--every", 8)
    run("train", NAME, *data, *sizes, "--sharpness", 2, "--out", folder)
    assert json.loads(run("resume", folder, "--json"))["steps"] == 16
    run("export", folder, "--numpy", tmp_path / "policy.py")
    run("report", folder, "--no-clip")
    page = (folder / "report.html").read_text()
    assert "WeightedBC learned to act from 4 demonstrations" in page
    assert '<td>sharpness</td><td class="number"><strong>2</strong></td>' in page
