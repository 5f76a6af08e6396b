"""`make demo`, at a small size."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from lobsdice.data.formats import read
from lobsdice.policies.policy import load_policy

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


SMALL = ["--expert", "6", "--others", "2", "--steps", "6", "--episodes", "1"]


def test_the_demo_ends_with_the_policy_that_it_wrote(tmp_path):
    command = [sys.executable, DEMO, "demo", *SMALL]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    _, found, path = result.stdout.splitlines()[-1].partition("policy: ")
    assert found and load_policy(tmp_path / path)(np.zeros(11)).shape == (3,)
    assert read(tmp_path / "demo" / "demos.npz").actions is None
    assert read(tmp_path / "demo" / "offline.npz").source_names == ("rest", "medium", "random")
