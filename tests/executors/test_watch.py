"""One view of all fleets, and the end of a fleet of `lobsdice train`."""

import io
import time

import pytest
from rich.console import Console
from small_fleets import recipe

from lobsdice import console
from lobsdice.errors import LobsDICEError
from lobsdice.executors import watch
from lobsdice.executors.job import Event, Job
from lobsdice.executors.train import train_on
from lobsdice.executors.watch import last_step, run_all


class Played:
    """An executor that tells what it is given, and lets fleets write up to step 30."""

    cores = 1

    def __init__(self, *events: tuple[str, int, str]):
        self.events = events

    def run(self, jobs):
        (job,) = jobs
        for what, status, where in self.events:
            yield Event(job, what, status, where)  # pyright: ignore
            job.folder.mkdir(exist_ok=True)
            (job.folder / "metrics.csv").write_text("step,run\r\n10,0\r\n30,0\r\n")
            job.log.write_text("compiling ...\nerror: there is no room\n")
            yield None
            time.sleep(0.15)  # a terminal is drawn ten times a second


LOST = (("begun", 0, "one"), ("again", 0, "other"), ("ended", 0, ""))


@pytest.mark.parametrize("terminal", [False, True])
def test_the_view_tells_where_fleets_train_and_how_far_they_are(tmp_path, monkeypatch, terminal):
    said = io.StringIO()
    shown = Console(file=said, force_terminal=terminal, width=120, soft_wrap=True)
    monkeypatch.setattr(console, "err", shown)
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(watch, "GLANCE", 0.0)
    ended = []
    job = Job(tmp_path / "bc-hopper", ("-c", ""), steps=40)
    found = run_all(Played(*LOST), [job], 1, lambda *end: ended.append(end))
    assert found == {job.folder: 0} and ended == [(job.folder, 0)]
    text = said.getvalue()
    assert "bc-hopper was ended from outside, and continues on other from its checkpoint" in text
    assert ("30/40" in text) and ("1/1" if terminal else "1 of 1 fleet done") in text


def test_the_last_step_is_read_without_the_whole_table(tmp_path):
    assert last_step(tmp_path) == 0
    rows = "".join(f"0,{step},{'x' * 50}\r\n" for step in range(0, 20_000, 10))
    (tmp_path / "metrics.csv").write_text(f"run,step,words\r\n{rows}")
    assert last_step(tmp_path) == 19_990


@pytest.mark.parametrize(
    ("status", "sentence"),
    [(2, "failed: there is no room "), (-9, "was ended from outside; `lobsdice resume")],
)
def test_a_fleet_that_does_not_come_to_its_end_is_an_error(tmp_path, status, sentence):
    mine = recipe(tmp_path / "run")
    with pytest.raises(LobsDICEError, match=sentence):
        train_on(Played(("ended", status, "")), mine, {})
