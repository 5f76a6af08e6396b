"""Fleets on a real Slurm cluster of one host, which listens to 127.0.0.1 alone.

sudo python benchmarks/slurm_on_one_host.py

It needs Debian's packages slurmctld, slurmd, slurm-client and munge, and root's rights. It starts
them with files in a temporary folder, trains two small fleets on them and in this process, compares
the results, and ends them.
"""

import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))
os.environ["JAX_ENABLE_X64"] = "1"  # as in the jobs

from small_fleets import job, results, whole

from lobsdice.executors.options import Where

CONFIG = """
ClusterName=one
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName=localhost NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def program(command: Sequence[str], log: Path) -> Iterator[None]:
    """Run a program in the background, and end it."""
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            yield
        finally:
            process.terminate()


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nothing listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def cluster(folder: Path) -> Iterator[None]:
    """A Slurm cluster of this host."""
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(mode=0o700)
    key = folder / "munge" / "key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o600)
    text = CONFIG.format(folder=folder, ports=free_ports(2), cpus=os.cpu_count())
    (folder / "slurm.conf").write_text(text)
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    places = {"socket": "socket", "key-file": "key", "log-file": "log", "pid-file": "pid"}
    munge = [f"--{option}={folder}/munge/{name}" for option, name in places.items()]
    with (
        program(
            ["munged", "--foreground", "--force", f"--seed-file={folder}/munge/seed", *munge],
            folder / "munged.log",
        ),
        program(["slurmctld", "-D"], folder / "slurmctld.log"),
        program(["slurmd", "-D", "-N", "localhost"], folder / "slurmd.log"),
    ):
        _wait_for_node()
        yield


def _wait_for_node() -> None:
    for _ in range(60):
        found = subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True, text=True)
        if found.stdout.strip() == "idle":
            return
        time.sleep(1)
    raise SystemExit("the node of Slurm does not become idle")


def main() -> None:
    """Train, compare, and print what was found."""
    with tempfile.TemporaryDirectory() as name, cluster(Path(name)):
        folder = Path(name) / "fleets"
        folder.mkdir()
        jobs = [job(folder / f"{seeds}", seeds) for seeds in (1, 2)]
        executor = Where(on="slurm").executor(folder)
        assert executor is not None
        begin = time.monotonic()
        for event in filter(None, executor.run(jobs)):
            seconds = time.monotonic() - begin
            print(f"{seconds:5.1f} s: {event.job.folder.name} {event.what} {event.where}")
            assert event.status == 0
        for mine, seeds in zip(jobs, (1, 2), strict=True):
            assert results(mine.folder) == whole(folder / f"here-{seeds}", seeds)
        print("the results are those of this process, bit for bit")


if __name__ == "__main__":
    main()
