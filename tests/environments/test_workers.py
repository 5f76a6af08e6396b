"""The pool of processes: reused, quiet, and ended with the program."""

import importlib.util
import math
import os
import signal
import subprocess
import sys

import pytest

from lobsdice.environments.workers import as_completed
from lobsdice.errors import LobsDICEError

#: A long job. It reports its start in a single write, because two processes share the pipe.
LONG = "import os, time; os.write(2, b'started\\n'); time.sleep(60)"
PROGRAM = f"""if True:
    import signal
    from lobsdice.environments.workers import as_completed
    signal.signal(signal.SIGINT, signal.default_int_handler)
    list(as_completed(exec, [{LONG!r}] * 2, 2))
    """
#: The same, but it is long to read the job, such as one that imports JAX.
LONG_TO_READ = f"""if True:
    from lobsdice.environments.workers import as_completed
    class Job:
        def __reduce__(self):
            return exec, ({LONG!r},)
    list(as_completed(repr, [Job()] * 2, 2))
    """


def started_program(code: str = PROGRAM) -> subprocess.Popen[str]:
    """A program whose two workers are busy. Its stderr ends when all three have ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    assert [process.stderr.readline() for _ in range(2)] == ["started\n"] * 2
    return process


@pytest.mark.skipif(os.name != "posix", reason="needs signals and process groups")
def test_an_interrupt_ends_the_workers_too():
    process = started_program()
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1 and errors.endswith("KeyboardInterrupt\n")


def test_an_interrupted_program_does_not_wait_for_jobs_of_a_background_thread():
    code = f"""if True:
        import threading, time
        from lobsdice.environments.workers import as_completed
        work = lambda: list(as_completed(exec, [{LONG!r}] * 4, 2))
        threading.Thread(target=work, daemon=True).start()
        time.sleep(1)
        raise KeyboardInterrupt
        """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stderr.endswith("KeyboardInterrupt\n")


@pytest.mark.parametrize("code", [PROGRAM, LONG_TO_READ], ids=["at work", "reading"])
def test_workers_end_with_a_program_that_is_killed_in_the_middle_of_a_job(code):
    process = started_program(code)
    process.kill()
    _, errors = process.communicate(timeout=20)
    assert errors == ""


def test_a_script_needs_no_guard_and_its_folder_is_searched_but_not_the_current_one(tmp_path):
    (tmp_path / "random.py").write_text("raise SystemExit('imported from the current folder')")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "mine.py").write_text("import random\ndef work(job): return 2 * job")
    code = "import mine\nfrom lobsdice.environments.workers import as_completed\n"
    code += "print(sorted(as_completed(mine.work, [1, 2], 2)))"
    (tmp_path / "scripts" / "script.py").write_text(code)
    command = [sys.executable, "scripts/script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[(1, 2), (2, 4)]\n", "")


def test_the_current_folder_of_a_notebook_is_searched_last(tmp_path):
    (tmp_path / "queue.py").write_text("raise SystemExit('imported from the current folder')")
    (tmp_path / "mine.py").write_text("import queue\ndef work(job): return 2 * job")
    code = "import sys\nfrom lobsdice.environments.workers import as_completed\n"
    code += "sys.path.insert(0, '')\nimport mine\nprint(sorted(as_completed(mine.work, [1, 2], 2)))"
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[(1, 2), (2, 4)]\n", "")


def test_processes_are_reused_and_what_they_print_is_no_result(capfd):
    job = "__import__('time').sleep(0.5) or __import__('os').getpid()"  # one for each
    first, second = ({pid for _, pid in as_completed(eval, [job] * 2, 2)} for _ in range(2))
    assert first == second and len(first) == 2
    jobs = ["print('printed')", "__import__('os').environ['OPENBLAS_NUM_THREADS']"]
    assert set(dict(as_completed(eval, jobs, 2)).values()) == {None, "1"}
    assert capfd.readouterr().out == ""


def test_a_worker_that_dies_or_fails_is_reported():
    with pytest.raises(LobsDICEError, match=r"a worker process died \(exit status 7\)"):
        list(as_completed(os._exit, [7, 7], 2))
    with pytest.raises(RuntimeError, match="math domain error"):
        list(as_completed(math.sqrt, [-1.0, -1.0], 2))


def test_work_that_cannot_be_handed_out_is_an_error_and_no_endless_wait():
    with pytest.raises(TypeError, match="cannot pickle 'module' object"):
        list(as_completed(repr, [math, math], 2))


def test_a_worker_that_waits_serves_only_those_who_search_the_same_path(tmp_path, monkeypatch):
    """A module that can be found now cannot be found by a process that was started earlier."""
    assert dict(as_completed(math.sqrt, [4.0, 9.0], 2)) == {4.0: 2.0, 9.0: 3.0}
    (tmp_path / "found_later.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    names = ["found_later", "math"]
    found = dict(as_completed(importlib.util.find_spec, names, 2))
    assert all(found.values())
