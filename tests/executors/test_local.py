"""Programs in processes of this machine, which end with the one that started them."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lobsdice.executors.job import Event, Job
from lobsdice.executors.local import Local, share
from lobsdice.executors.program import SHARED_GPU


def python(folder: Path, code: str) -> Job:
    return Job(folder, ("-c", code))


def ended(executor: Local, jobs) -> list[Event]:
    return [event for event in executor.run(jobs) if event and event.what == "ended"]


def test_each_process_has_its_log_and_its_exit_status(tmp_path):
    jobs = [python(tmp_path / f"{i}", f"print({i}); exit({i})") for i in range(3)]
    found = {event.job: event.status for event in ended(Local(2), jobs)}
    assert found == dict(zip(jobs, range(3), strict=True))
    assert [job.log.read_text() for job in jobs] == ["0\n", "1\n", "2\n"]


def test_no_file_of_the_current_folder_stands_for_a_module(tmp_path, monkeypatch):
    (tmp_path / "queue.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    (event,) = ended(Local(1), [python(tmp_path / "fleet", "import queue")])
    assert event.status == 0


def test_a_job_is_drawn_when_there_is_room_for_it(tmp_path):
    drawn = []

    def jobs():
        for i in range(3):
            drawn.append(i)
            yield python(tmp_path / f"{i}", "")

    events = (event for event in Local(1).run(jobs()) if event and event.what == "ended")
    assert [len(drawn) for _ in events] == [1, 2, 3]


ONCE = """
import os, signal
from pathlib import Path
mark = Path({!r})
if not mark.exists():
    mark.touch()
    os.kill(os.getpid(), signal.{})
"""


def test_a_program_that_was_killed_goes_on_as_often_as_is_allowed(tmp_path):
    job = python(tmp_path, ONCE.format(str(tmp_path / "mark"), "SIGKILL"))
    events = [(event.what, event.status) for event in Local(1, retries=1).run([job]) if event]
    assert events == [("begun", 0), ("again", -signal.SIGKILL), ("ended", 0)]
    (tmp_path / "mark").unlink()
    assert [event.status for event in ended(Local(1), [job])] == [-signal.SIGKILL]


def test_a_program_that_broke_an_assertion_is_not_tried_again(tmp_path):
    job = python(tmp_path, ONCE.format(str(tmp_path / "mark"), "SIGABRT"))
    assert [event.status for event in ended(Local(1, retries=1), [job])] == [-signal.SIGABRT]


@pytest.mark.parametrize(
    ("gpus", "slots", "shares"),
    [
        ("0123", 2, ["02", "13"]),
        ("0123", 4, ["0", "1", "2", "3"]),
        ("01", 3, ["0", "1", "0"]),
        ("", 2, ["", ""]),
    ],
)
def test_programs_divide_the_gpus(gpus, slots, shares):
    assert ["".join(share(gpus, slot, slots)) for slot in range(slots)] == shares


def test_a_program_sees_its_own_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    code = "import os, time; print(os.environ['CUDA_VISIBLE_DEVICES']); time.sleep(0.5)"
    jobs = [python(tmp_path / f"{i}", code) for i in range(2)]
    assert len(ended(Local(2), jobs)) == 2
    assert [job.log.read_text() for job in jobs] == ["4\n", "7\n"]


def test_a_gpu_is_shared_by_flags_that_jax_knows_and_as_the_user_says(tmp_path, monkeypatch):
    (tmp_path / "jax_plugins").mkdir()  # where JAX looks for accelerators
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    code = "import os, jax; jax.numpy.zeros(1); print(*map(os.environ.get, {!r}))"
    job = python(tmp_path / "fleet", code.format(list(SHARED_GPU)))
    (event,) = ended(Local(2), [job])
    assert event.status == 0 and job.log.read_text() == f"true {SHARED_GPU['XLA_FLAGS']}\n"


CHILD = """
import time
from lobsdice.executors.program import end_with_parent

end_with_parent()
print(1, end='', flush=True)
time.sleep(100)
"""
PARENT = f"""
import sys
from pathlib import Path
from lobsdice.executors.job import Job
from lobsdice.executors.local import Local

list(Local(1).run([Job(Path(sys.argv[1]), ("-c", {CHILD!r}))]))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_their_parent(how, tmp_path):
    os.mkfifo(log := tmp_path / "log.txt")
    reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stderr=subprocess.DEVNULL
    )
    assert select.select([reader], [], [], 60)[0] and os.read(reader, 100) == b"1"
    parent.send_signal(how)
    parent.wait()
    assert select.select([reader], [], [], 60)[0] and os.read(reader, 100) == b""  # nobody writes
    os.close(reader)
