import json

import numpy as np
import pytest

from lobsdice.environments.tasks.collect import collect
from lobsdice.environments.tasks.references import measure
from lobsdice.environments.tasks.table import BUILT_IN, REFERENCES


def test_references_say_what_they_were_measured_with():
    packages = {package for spec in BUILT_IN.values() for package in spec.packages}
    assert set(json.loads(REFERENCES.read_text())["versions"]) == packages


def test_measuring_repeats_what_collecting_gives(tmp_path):
    measure(tasks=("hopper",), episodes=2, seed=5, workers=1, path=tmp_path / "references.json")
    row = json.loads((tmp_path / "references.json").read_text())["returns"]["hopper"]["random"]
    returns = collect("hopper", {"random": 2}, seed=5, workers=1)["random"].returns()
    assert returns is not None
    assert row["mean"] == pytest.approx(returns.mean(), abs=1e-3)
    assert row["standard_error"] == pytest.approx(np.ptp(returns) / 2, abs=1e-3)


def test_measuring_some_tasks_keeps_what_was_measured_alike(tmp_path):
    path = tmp_path / "references.json"
    options = {"episodes": 2, "workers": 1, "path": path}
    for tasks in (("grid",), ("reach",)):
        measure(tasks=tasks, seed=5, **options)
    assert set(json.loads(path.read_text())["returns"]) == {"grid", "reach"}
    measure(tasks=("cartpole",), seed=6, **options)
    assert set(json.loads(path.read_text())["returns"]) == {"cartpole"}
