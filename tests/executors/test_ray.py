"""Fleets on Ray."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lobsdice.errors import LobsDICEError
from lobsdice.executors.ray import knock

#: Seconds for one test of the cluster, and for all.
ONE, ALL = 400, 600


def test_a_real_cluster_of_two_nodes(tmp_path):
    """All tests of `ray_cluster.py` pass; if Ray hangs, the process ends and says where."""
    tests = Path(__file__).with_name("ray_cluster.py")
    limits = (f"faulthandler_timeout={ONE}", "faulthandler_exit_on_timeout=true")
    options = ["-x", "-o", "addopts=", "-o", limits[0], "-o", limits[1]]
    command = [sys.executable, "-m", "pytest", tests, *options, f"--basetemp={tmp_path / 'ray'}"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=ALL)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "3 passed" in found.stdout


def test_who_waits_for_ray_too_long_is_told_so():
    """The block holds Python's lock, as a call of Ray's does that does not return."""
    waits = "import ctypes\nwith limited(0.1, 'no answer'): ctypes.PyDLL(None).sleep(60)"
    found = limited(waits)
    assert (found.returncode, found.stderr) == (-signal.SIGKILL, "error: no answer\n")
    found = limited("with limited(60, 'no answer'): print('yes')")
    assert (found.returncode, found.stdout, found.stderr) == (0, "yes\n", "")


def test_an_address_where_nothing_listens_is_refused_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        knock(address)
    with pytest.raises(LobsDICEError, match=f"no Ray cluster at {address}: .*refused"):
        knock(address)
    knock("auto")
    knock("ray://head:10001")


def limited(code: str) -> subprocess.CompletedProcess[str]:
    command = f"from lobsdice.executors.ray import limited\n{code}"
    return subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
