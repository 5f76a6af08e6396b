"""The live table, the pace, TensorBoard's event files and Weights & Biases."""

import io
import struct
import time

import pytest
from rich.console import Console

from lobsdice import console
from lobsdice.console import progress
from lobsdice.errors import LobsDICEError
from lobsdice.training.loggers import LiveTable, Pace, TensorBoard, WandB, fitting, summary

ROWS = [
    {"step": 1000, "run": i, "seed": i, "return": 10.0 * i, "score": 1.5, "nu_loss": 0.123456789}
    for i in range(3)
]


@pytest.fixture
def terminal(monkeypatch):
    """What a user sees on a terminal."""
    text = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=text, force_terminal=True, width=60))
    return text


def test_a_summary_is_the_mean_over_the_runs():
    found = summary(ROWS)
    assert found == {"step": 1000, "runs": 3, "return": 10.0, "score": 1.5, "nu_loss": 0.123456789}
    assert "runs" not in summary(ROWS[:1])


def test_the_table_is_aligned_under_one_header_on_a_terminal(terminal):
    table = LiveTable()
    with progress("Training", 10) as advance:
        advance(1)
        for step in (1000, 20000):
            table([row | {"step": step} for row in ROWS])
    lines = [line for line in terminal.getvalue().splitlines() if "Training" not in line]
    shown = [line.rsplit("\x1b[2K", 1)[-1] for line in lines if "score" in line or "1.5" in line]
    assert shown == [
        "     step       runs      score     return    nu_loss",
        "    1,000          3        1.5         10    0.12346",
        "   20,000          3        1.5         10    0.12346",
    ]


def test_a_narrow_terminal_gets_the_foremost_columns():
    row = summary(ROWS)
    assert list(fitting(row, 200)) == ["step", "runs", "score", "return", "nu_loss"]
    assert list(fitting(row, 45)) == ["step", "runs", "score", "return"]
    assert list(fitting(row, 9)) == ["step"]


def test_elsewhere_the_table_is_a_line_that_the_progress_shows(capsys):
    table, notes = LiveTable(), []
    table(ROWS)
    assert table.latest == "step 1,000: runs 3, return 10, score 1.5, nu_loss 0.12346"
    pace = Pace(lambda n, note: notes.append(note), 300, table)
    for _ in range(2):
        pace(100)
    assert notes[1].endswith(f"left); {table.latest}")
    many = {f"measure_{i}": 1.0 for i in range(50)}
    table([{"step": 1} | many | {"score": 7.0}])
    line = table.latest
    assert len(line) < 150 and line.startswith("step 1: measure_0 1, ") and "score 7" in line
    table([])
    assert table.latest == line and capsys.readouterr().err == ""


def test_the_pace_leaves_compilation_out(capsys):
    notes = []
    pace = Pace(lambda n, note: notes.append(note), left=300)
    pace.begin(0)
    time.sleep(0.3)
    pace(100)
    time.sleep(0.02)
    pace(100)
    assert notes[:2] == ["compiling ...", ""] and capsys.readouterr().err == "compiling ...\n"
    rate = float(notes[2].split()[0].strip("(").replace(",", ""))
    assert 400 < rate <= 5000 and notes[2].endswith("0:00:00 left)")  # not the 300 of all steps


def test_the_pace_leaves_out_the_compilation_of_a_shorter_piece():
    notes = []
    pace = Pace(lambda n, note: notes.append(note), left=1000)
    for steps, seconds in [(496, 0.0), (4, 0.5), (496, 0.02), (4, 0.0)]:
        time.sleep(seconds)
        pace(steps)
    assert notes[:2] == ["", ""]  # two programs were compiled
    assert float(notes[2].split()[0].strip("(").replace(",", "")) > 1000
    assert notes[3].endswith("0:00:00 left)")


def test_nothing_is_compiled_for_a_finished_run(capsys):
    notes = []
    Pace(lambda n, note: notes.append((n, note)), left=0).begin(100)
    assert notes == [(100, "")] and capsys.readouterr().err == ""


def events(folder):
    """The events of a folder, by the format of the files: length, checksum, message, checksum."""
    from tensorboardX.crc32c import crc32c
    from tensorboardX.proto.event_pb2 import Event  # pyright: ignore

    for path in sorted(folder.glob("events.out.tfevents.*"), key=lambda p: p.stat().st_mtime_ns):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            message, check = data[12 : 12 + length], data[12 + length : 16 + length]
            crc = crc32c(message)
            masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
            assert struct.unpack("<I", check)[0] == masked
            yield Event.FromString(message)
            data = data[16 + length :]


def scalars(folder):
    return [
        (value.tag, event.step, value.simple_value)
        for event in events(folder)
        for value in event.summary.value
    ]


def test_tensorboard_can_read_the_event_files(tmp_path):
    log = TensorBoard(tmp_path)
    log(ROWS)
    log([row | {"step": 2000} for row in ROWS])
    for i in range(3):
        found = scalars(tmp_path / f"run-{i}")  # while the writers are open
        assert [x[:2] for x in found] == [
            (name, step) for step in (1000, 2000) for name in ("return", "score", "nu_loss")
        ]
        assert [x[2] for x in found[:3]] == pytest.approx([10.0 * i, 1.5, 0.123456789])


def test_a_resumed_run_withdraws_what_it_repeats(tmp_path):
    TensorBoard(tmp_path)([ROWS[0] | {"step": step} for step in (1000, 2000)])
    TensorBoard(tmp_path)([ROWS[0] | {"step": 2000}])
    restarts = [event.step for event in events(tmp_path / "run-0") if event.session_log.status]
    assert restarts == [1000, 2000]


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LobsDICEError, match="cannot write"):
        TensorBoard(tmp_path / "file")(ROWS)


def test_weights_and_biases_keeps_a_run_for_each(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    log = WandB("project", name="mine", identity="0123abcd", folder=tmp_path, config={"alpha": 1})
    log(ROWS)
    log([row | {"step": 2000} for row in ROWS])
    for i, run in log.runs.items():
        assert (run.project, run.group, run.name) == ("project", "mine", f"mine-{i}")
        assert run.config["seed"] == i and run.summary["return"] == 10.0 * i and run.step == 2000
        run.finish()
    assert len(list(tmp_path.glob("wandb/offline-run-*"))) == 3
