import io
import time

import pytest
from rich.console import Console

from lobsdice import console


@pytest.fixture
def terminal(monkeypatch):
    """What a user sees on a terminal."""
    text = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=text, force_terminal=True, width=100))
    return text


def test_progress_is_a_bar_on_a_terminal(terminal):
    with console.progress("Collecting", 3) as advance:
        for _ in range(3):
            advance(note="all well")
    assert "Collecting" in terminal.getvalue() and "3/3" in terminal.getvalue()
    assert "all well" in terminal.getvalue()


def test_progress_is_plain_lines_elsewhere(capsys, monkeypatch):
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 0.0)
    with console.progress("Collecting", 2) as advance:
        advance()
        advance(note="[all] well")
    assert capsys.readouterr().err.splitlines() == [
        "Collecting: 1/2, 0 s",
        "Collecting: 2/2, 0 s [all] well",
    ]


def test_progress_of_a_short_job_is_silent(capsys):
    with console.progress("Collecting", 2) as advance:
        advance(2)
    assert capsys.readouterr() == ("", "")


def test_waiting_speaks_once_patience_is_over(capsys, monkeypatch):
    monkeypatch.setattr(console, "PATIENCE", 0.01)
    with console.waiting("Reading demos.h5"):
        time.sleep(0.2)
    assert capsys.readouterr() == ("", "Reading demos.h5 ...\n")


def test_waiting_shows_a_bar_on_a_terminal(terminal, monkeypatch):
    monkeypatch.setattr(console, "PATIENCE", 0.01)
    with console.waiting("Reading demos.h5"):
        time.sleep(0.3)
    assert "Reading demos.h5" in terminal.getvalue() and "━" in terminal.getvalue()


def test_waiting_for_a_short_job_is_silent(capsys):
    with console.waiting("Reading demos.h5"):
        pass
    assert capsys.readouterr() == ("", "")


def test_an_error_while_waiting_ends_the_waiting(capsys, monkeypatch):
    monkeypatch.setattr(console, "PATIENCE", 0.1)
    with pytest.raises(ValueError), console.waiting("Reading demos.h5"):
        raise ValueError
    time.sleep(0.2)
    assert capsys.readouterr() == ("", "")


HOSTILE = "[/red][bold]:smile:\x1b]0;title\x07"
SHOWN = r"[/red][bold]:smile:\x1b]0;title\x07"


def test_names_are_shown_as_they_are_and_do_nothing_to_the_terminal(terminal, monkeypatch, capsys):
    console.say(HOSTILE)
    with console.progress(HOSTILE, 1) as advance:
        advance(note="[/note]")
    monkeypatch.setattr(console, "PATIENCE", 0.01)
    with console.waiting(HOSTILE):
        time.sleep(0.2)
    text = terminal.getvalue()
    assert text.count(SHOWN) >= 3 and "[/note]" in text and "\x1b]" not in text
    console.show(HOSTILE)
    assert capsys.readouterr().out == f"{SHOWN}\n"
