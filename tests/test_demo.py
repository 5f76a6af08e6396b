"""`make demo`, at a small size, and `make demo-reach`, whose commands the documentation runs."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from lobsdice.data.formats import read
from lobsdice.policies.policy import load_policy

FOLDER = Path(__file__).parents[1]
DEMO = FOLDER / "examples" / "demo.py"


SMALL = ["--expert", "6", "--others", "2", "--steps", "6", "--episodes", "1"]


def test_the_demo_ends_with_the_policy_that_it_wrote(tmp_path):
    command = [sys.executable, DEMO, "demo", *SMALL]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    _, found, path = result.stdout.splitlines()[-1].partition("policy: ")
    assert found and load_policy(tmp_path / path)(np.zeros(11)).shape == (3,)
    assert read(tmp_path / "demo" / "demos.npz").actions is None
    assert read(tmp_path / "demo" / "offline.npz").source_names == ("rest", "medium", "random")


def test_the_quick_start_shows_the_commands_of_the_small_demo():
    shown = ["make", "--dry-run", "--old-file", ".venv/installed", "demo-reach", "DEMO=runs"]
    made = subprocess.run(shown, cwd=FOLDER, capture_output=True, text=True, check=True).stdout
    commands = [line.partition("bin/")[2] for line in made.splitlines() if "bin/lobsdice" in line]
    assert len(commands) == 3 and "\n".join(commands) in (FOLDER / "docs/quickstart.md").read_text()
