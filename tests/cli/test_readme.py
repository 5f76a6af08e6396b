"""The README is true: its example runs, its commands and files exist."""

import re
import shlex
from pathlib import Path

import pytest

from lobsdice.cli.commands import ROOT, Command, Group
from lobsdice.cli.main import main

FOLDER = Path(__file__).parents[2]
PAGES = [FOLDER / "README.md", FOLDER / "CONTRIBUTING.md", FOLDER / "docs" / "data.md"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    (code,) = blocks(FOLDER / "README.md", "python")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOBSDICE_CACHE", str(tmp_path / "cache"))
    small = re.sub(r'expert=5|"(expert|medium|random)": \d+', _fewer, code)
    exec(compile(small, "README.md", "exec"), {})
    assert "3 episodes" in capsys.readouterr().out


def _fewer(match: re.Match[str]) -> str:
    return re.sub(r"\d+", "1", match.group())


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
