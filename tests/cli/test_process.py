"""What a command does to its process, and what the process's surroundings do to a command."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lobsdice.cli.process import Stream, own_process
from lobsdice.errors import LobsDICEError

posix = pytest.mark.skipif(os.name != "posix", reason="needs a shell")


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a line in which `lobsdice` stands for this package."""
    line = line.replace("lobsdice", f"{sys.executable} -m lobsdice")
    return subprocess.run(line, shell=True, cwd=cwd, capture_output=True, text=True, timeout=60)


def test_characters_that_an_encoding_lacks_are_escaped():
    inner = io.TextIOWrapper(file := io.BytesIO(), encoding="ascii")
    stream = Stream(inner, "standard output", results=True)
    assert stream.write("1 ± 2, caf\udce9") == 11
    stream.flush()
    assert file.getvalue() == rb"1 \xb1 2, caf\udce9"


class Full(io.StringIO):
    encoding = "utf-8"

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_lost_result_is_an_error_and_a_lost_message_is_not():
    with pytest.raises(LobsDICEError, match="cannot write to standard output: No space left"):
        Stream(Full(), "standard output", results=True).write("a result")
    Stream(Full(), "standard error", results=False).write("a message")


@posix
def test_results_for_a_closed_or_full_output_are_one_line_and_messages_may_be_lost(tmp_path):
    for line in ("lobsdice --help >&-", "lobsdice data info --help >&-"):
        found = shell(line, tmp_path)
        assert found.returncode == 2
        assert (
            found.stderr == "error: standard output is closed, so that no result can be printed\n"
        )
    collect = "lobsdice data collect grid --expert 4 --wrong 0 --hasty 0 --random 0 --workers 2"
    assert shell(f"{collect} -o here <&- 2>&-", tmp_path).returncode == 0
    if Path("/dev/full").exists():
        found = shell("lobsdice data info here/expert.npz >/dev/full", tmp_path)
        assert found.stderr == "error: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize("columns", ["1", "5"])
def test_help_in_a_narrow_terminal_ends(lobsdice, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert "--alpha" in lobsdice("train", "lobsdice", "--help").out
    assert os.environ["COLUMNS"] == columns


def test_no_file_of_the_current_folder_is_executed_by_a_command_or_its_workers(tmp_path):
    for name in ("queue", "rich", "numpy", "gymnasium", "wandb"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('executed: {name}')")
    collect = "data collect grid --expert 4 --wrong 0 --hasty 0 --random 0 --workers 2 -o here"
    for module in ("lobsdice", "lobsdice.cli"):
        command = [sys.executable, "-m", module, *collect.split()]
        found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert found.returncode == 0 and "executed" not in found.stderr


def test_an_interrupted_process_runs_its_exit_functions_and_then_frees_nothing():
    """JAX crashes when its objects are freed after it was interrupted while it compiled."""
    code = """if True:
        import atexit, os, sys
        from lobsdice.cli import main
        from lobsdice.cli.commands.info import Info

        class Freed:
            def __del__(self):
                os.write(2, b"freed\\n")

        def interrupt(self):
            raise KeyboardInterrupt

        freed, Info.__call__ = Freed(), interrupt
        atexit.register(print, "at exit")
        sys.argv[1:] = ["data", "info", "x"]
        sys.exit(main())
        """
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (130, "at exit\n", "interrupted\n")


@posix
def test_an_interrupt_that_python_drops_in_a_callback_comes_again():
    class Dropping:
        def __del__(self):
            raise KeyboardInterrupt

    start = time.monotonic()
    with own_process(), pytest.raises(KeyboardInterrupt):
        dropping = Dropping()
        del dropping
        time.sleep(20)
    assert time.monotonic() - start < 10
