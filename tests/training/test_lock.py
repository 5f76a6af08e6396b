"""The lock on a run folder, and Ctrl-C that is not lost."""

import gc
import signal
import subprocess
import sys
from typing import Any

import pytest
from worlds import noise_data

from lobsdice.algorithms import BC
from lobsdice.errors import LobsDICEError
from lobsdice.training import lock
from lobsdice.training.interrupts import interruptible
from lobsdice.training.lock import LOCK, BusyError, locked
from lobsdice.training.train import train

HOLD = """
import sys
from pathlib import Path
from lobsdice.training.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
TINY: dict[str, Any] = {"steps": 20, "every": 5, "batch_size": 4}


def test_a_lock_is_held_against_others_and_leaves_nothing(tmp_path):
    with locked(tmp_path / "new"):
        with pytest.raises(BusyError, match=r"another process is training in .*new; wait"):
            locked(tmp_path / "new").__enter__()
        assert (tmp_path / "new" / LOCK).exists()
    assert list((tmp_path / "new").iterdir()) == []
    with locked(tmp_path / "new"):
        pass


def test_a_lock_dies_with_its_process(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"held\n"
        with pytest.raises(BusyError):
            locked(tmp_path).__enter__()
        process.send_signal(signal.SIGKILL)
    assert (tmp_path / LOCK).exists()  # the file, which nobody holds
    with locked(tmp_path):
        pass


def test_where_there_are_no_locks_training_goes_on_with_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)
    with (
        pytest.warns(UserWarning, match="cannot be locked here .*do not train in it twice"),
        locked(tmp_path),
    ):
        pass


def test_a_second_training_in_the_same_folder_is_refused(tmp_path):
    out, data, refused = tmp_path / "run", noise_data(), []

    def train_again(rows):
        for resume in (False, True):
            with pytest.raises(BusyError) as caught:
                train(BC(width=8), data, out=out, resume=resume, **TINY)
            refused.append(caught.value)
        before.append((out / "config.json").read_bytes())

    before: list[bytes] = []
    run = train(BC(width=8), data, out=out, loggers=[train_again], **TINY)
    assert len(refused) == 2 * 4 and len(run.table()) == 4
    assert set(before) == {(out / "config.json").read_bytes()}
    with pytest.raises(LobsDICEError, match="already holds a run"):
        train(BC(width=8), data, out=out, **TINY)


@pytest.fixture
def ctrl_c_in_garbage_collection(monkeypatch):
    """Press Ctrl-C within the next garbage collection, where Python ignores exceptions."""
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: ignored.append(found.exc_type))

    def press(phase, info):
        gc.callbacks.remove(press)
        signal.raise_signal(signal.SIGINT)

    def collect(rows=None):
        gc.callbacks.append(press)
        gc.collect()

    yield collect
    assert ignored == [KeyboardInterrupt]


def test_ctrl_c_that_python_ignores_ends_training(ctrl_c_in_garbage_collection):
    steps = []

    def log(rows):
        steps.append(rows[0]["step"])
        if len(steps) == 1:
            ctrl_c_in_garbage_collection()

    with pytest.raises(KeyboardInterrupt):
        train(BC(width=8), noise_data(), loggers=[log], **TINY)
    assert steps == [5]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_that_a_library_turns_into_its_own_error_is_ctrl_c():
    with pytest.raises(KeyboardInterrupt), interruptible():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("INTERNAL") from None


def test_a_second_ctrl_c_ends_the_process_at_once():
    code = """
import signal
from lobsdice.training.interrupts import interruptible
with interruptible():
    for _ in range(2):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            print("first", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (-signal.SIGINT, b"first\n")


def test_processes_that_ignore_ctrl_c_go_on_ignoring_it():
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible() as check:
            signal.raise_signal(signal.SIGINT)
            check()
    finally:
        signal.signal(signal.SIGINT, old)
