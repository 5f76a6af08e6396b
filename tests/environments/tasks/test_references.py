import json

import numpy as np
import pytest

from lobsdice.environments.tasks.collect import collect
from lobsdice.environments.tasks.references import measure
from lobsdice.environments.tasks.table import REFERENCES, TASKS


def test_references_say_what_they_were_measured_with():
    assert set(json.loads(REFERENCES.read_text())["versions"]) == {"gymnasium", "mujoco"}


def test_measuring_repeats_what_collecting_gives(monkeypatch, tmp_path):
    only = {"hopper": TASKS["hopper"]}
    monkeypatch.setattr("lobsdice.environments.tasks.references.TASKS", only)
    measure(episodes=2, seed=5, workers=1, path=tmp_path / "references.json")
    row = json.loads((tmp_path / "references.json").read_text())["returns"]["hopper"]["random"]
    returns = collect("hopper", {"random": 2}, seed=5, workers=1)["random"].returns()
    assert returns is not None
    assert row["mean"] == pytest.approx(returns.mean(), abs=1e-3)
    assert row["standard_error"] == pytest.approx(np.ptp(returns) / 2, abs=1e-3)
