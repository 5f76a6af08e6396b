"""Names of files, sources and columns that would break a table, or that a terminal would obey."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lobsdice import console
from lobsdice.data.formats import write

MARKUP = "[/red]"
ESCAPES = "\x1b]0;title\x07\x9b2J\x1b[2J\u202e"
#: A name in Latin-1, as Python reads it.
NOT_UTF8 = os.fsdecode(b"caf\xe9")


@pytest.fixture
def lines(lobsdice, monkeypatch):
    """Run a command that has to end in a result or in a sentence; return all lines it prints."""
    monkeypatch.setattr(console.out, "_width", 300, raising=False)

    def run(*words: str | Path, code: int = 0) -> str:
        result = lobsdice(*words)
        text = result.out + result.err
        assert result.code == code, text
        assert not set(ESCAPES) & {c for c in text if not c.isprintable() and c != "\n"}
        return " ".join(text.split())

    return run


@pytest.fixture
def named(tmp_path, episodes) -> Path:
    """A recording whose sources and columns have such names."""
    sources = replace(episodes, source=np.array([0, 1, 0, 1]), source_names=(MARKUP, ESCAPES))
    write(path := tmp_path / "named.npz", replace(sources, observation_names=(MARKUP, ESCAPES, "")))
    return path


def test_tables_show_sources_and_columns_as_they_are(lines, named, demonstrations):
    found = lines("data", "info", named)
    assert r"[/red] 2, \x1b]0;title\x07\x9b2J\x1b[2J\u202e 2" in found
    assert MARKUP in lines("data", "check", "--expert", demonstrations, "--offline", named)
    assert MARKUP in lines("audit", "--expert", demonstrations, "--offline", named, code=3)


@pytest.mark.parametrize(
    "name",
    ["[red]", ESCAPES, NOT_UTF8, "two\nlines"],
    ids=["markup", "escapes", "not UTF-8", "two lines"],
)
def test_files_of_any_name_are_described_joined_and_refused_by_a_sentence(
    lines, tmp_path, episodes, name
):
    first, second = (tmp_path / f"{i}{name}.npz" for i in range(2))
    write(first, episodes.first(2))
    write(second, episodes.select(slice(2, None)))
    lines("data", "info", first)
    lines("data", "join", first, second, "--out", joined := tmp_path / f"{name}.npz")
    lines("data", "info", joined)
    lines("data", "convert", joined, tmp_path / "joined.hdf5")  # with the names as its sources
    lines("data", "info", tmp_path / f"{name}.csv", code=2)
    lines("data", "info", first, f"--no-{name}", code=2)
    lines("data", name, code=2)


def test_a_file_name_that_a_library_cannot_write_is_a_sentence(lines, tmp_path, recording):
    found = lines("data", "convert", recording, tmp_path / f"{NOT_UTF8}.csv", code=2)
    assert "is not in the encoding of file names" in found
