"""The README is true: its example runs, its commands and files exist."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lobsdice.cli.commands import ROOT, Command, Group
from lobsdice.cli.main import main

FOLDER = Path(__file__).parents[2]
PAGES = [
    FOLDER / name for name in ("README.md", "CONTRIBUTING.md", "docs/data.md", "docs/deploy.md")
]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


#: What the example is run with here, so that it takes seconds.
SMALL = {
    r"expert=\d+": "expert=1",
    r'"(expert|medium|random)": \d+': r'"\1": 1',
    r"seeds=\d+": "seeds=2",
    r"steps=[\d_]+": "steps=2, every=2",
}


def test_the_example_runs(tmp_path):
    (code,) = blocks(FOLDER / "README.md", "python")
    assert len(code.splitlines()) <= 18
    for pattern, replacement in SMALL.items():
        code, count = re.subn(pattern, replacement, code)
        assert count
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "LOBSDICE_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert "seed 1, step 2: return" in result.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_shown_exist(page, capsys):
    text = "\n".join(blocks(page, "sh"))
    for line in re.findall(r"^lobsdice .*", text, re.MULTILINE):
        _, *words = shlex.split(line, comments=True)
        entry, options = ROOT, {word for word in words if word.startswith("--")}
        path = []
        while isinstance(entry, Group):
            path.append(words[len(path)])
            entry = entry.members[path[-1]]
        assert isinstance(entry, Command)
        main([*path, "--help"])
        assert options <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out)), line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
