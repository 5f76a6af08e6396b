"""Programs in processes of their own."""

import os
import select
import signal
import subprocess
import sys

import pytest

from lobsdice.experiments.control.processes import SHARED_GPU, apart


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_each_process_has_its_log_and_its_exit_status(tmp_path):
    logs = [tmp_path / f"{i}" for i in range(3)]
    jobs = [(log, python(f"print({i}); exit({i})")) for i, log in enumerate(logs)]
    assert sorted(apart(jobs, 2)) == list(zip(logs, range(3), strict=True))
    assert [log.read_text() for log in logs] == ["0\n", "1\n", "2\n"]


def test_no_file_of_the_current_folder_stands_for_a_module(tmp_path, monkeypatch):
    (tmp_path / "queue.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    ((_, status),) = apart([(tmp_path / "log.txt", python("import queue"))], 1)
    assert status == 0


def test_a_job_is_drawn_when_there_is_room_for_it(tmp_path):
    drawn = []

    def jobs():
        for i in range(3):
            drawn.append(i)
            yield tmp_path / f"{i}", python("")

    assert [len(drawn) for _ in apart(jobs(), 1)] == [1, 2, 3]


def test_a_gpu_is_shared_by_flags_that_jax_knows_and_as_the_user_says(tmp_path, monkeypatch):
    (tmp_path / "jax_plugins").mkdir()  # where JAX looks for accelerators
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    code = "import os, jax; jax.numpy.zeros(1); print(*map(os.environ.get, {!r}))"
    job = python(code.format(list(SHARED_GPU)))
    ((log, status),) = apart([(tmp_path / "log.txt", job)], 1)
    assert status == 0 and log.read_text() == f"true {SHARED_GPU['XLA_FLAGS']}\n"


CHILD = """
import time
from lobsdice.experiments.control.processes import end_with_parent

end_with_parent()
print(1, end='', flush=True)
time.sleep(100)
"""
PARENT = f"""
import sys
from pathlib import Path
from lobsdice.experiments.control.processes import apart

list(apart([(Path(sys.argv[1]), [sys.executable, "-c", {CHILD!r}])], 1))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_their_parent(how, tmp_path):
    os.mkfifo(log := tmp_path / "log")
    reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(log)], stderr=subprocess.DEVNULL)
    assert select.select([reader], [], [], 60)[0] and os.read(reader, 100) == b"1"
    parent.send_signal(how)
    parent.wait()
    assert select.select([reader], [], [], 60)[0] and os.read(reader, 100) == b""  # nobody writes
    os.close(reader)
