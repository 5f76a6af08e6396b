"""`make demo`, at a small size."""

import subprocess
import sys
from pathlib import Path

from lobsdice.formats import read

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def test_the_demo_ends_with_what_it_wrote(tmp_path):
    command = [sys.executable, DEMO, "demo", "--expert", "6", "--others", "2"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    *_, demos, offline = result.stdout.splitlines()
    assert demos == "Demonstrations: demo/demos.npz"
    assert offline == "Labelled recordings: demo/offline.npz"
    assert read(tmp_path / "demo" / "demos.npz").actions is None
    assert read(tmp_path / "demo" / "offline.npz").source_names == ("others", "medium", "random")
