"""Fleets on a real Ray cluster of two nodes, which listens to this machine alone.

`test_ray.py` runs these tests in a process of their own. Ray starts its processes by forks, which
may wait forever in a process that has many threads, such as those of JAX.
"""

import os
import signal
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from small_fleets import job, program_of, results, run, signal_parent, whole

from lobsdice.executors.ray import ALONE, LOOPBACK, QUIET, Ray, connected

HERE = {
    "num_cpus": 1,
    "node_ip_address": LOOPBACK,
    "include_dashboard": False,
    "include_log_monitor": False,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster of two nodes, each with room for one fleet."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (QUIET | ALONE).items():
            patch.setenv(name, value)
        patch.setenv("LOBSDICE_CACHE", str(tmp_path_factory.mktemp("cache")))
        from ray.cluster_utils import Cluster

        found = Cluster(initialize_head=True, head_node_args=HERE)
        found.add_node(**HERE)
        patch.setenv("RAY_ADDRESS", str(found.address))
        with connected():
            yield found
        found.shutdown()


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> dict[str, bytes]:
    """The files that a fleet ends with in this process."""
    return whole(tmp_path_factory.mktemp("whole") / "fleet")


def test_a_fleet_whose_worker_is_killed_ends_as_if_it_had_not_been(cluster, expected, tmp_path):
    mine = job(tmp_path / "fleet")
    events = run(Ray(), [mine], lambda: signal_parent(mine, signal.SIGKILL))
    assert [(event.what, event.status) for event in events] == [
        ("begun", 0),
        ("again", 0),
        ("ended", 0),
    ]
    assert results(mine.folder) == expected
    assert "compiling" in mine.log.read_text()
    assert not list(tmp_path.glob(".seen-*"))


def test_fleets_end_with_the_command_that_started_them(cluster, tmp_path):
    mine = job(tmp_path / "fleet")
    with closing(Ray(shared=True).run([mine])) as events:
        while program_of(mine) is None:
            next(events)
    while program_of(mine):
        time.sleep(0.1)


def test_without_shared_storage_fleets_outlive_the_loss_of_a_node(cluster, expected, tmp_path):
    """The nodes get the data from Ray's store, and the checkpoint of the lost node goes on."""
    jobs = [job(tmp_path / name) for name in ("one", "two")]
    (other,) = [node for node in cluster.list_all_nodes() if not node.head]
    events = run(Ray(shared=False), jobs, lambda: cluster.remove_node(other))
    assert Counter(event.what for event in events) == {"begun": 2, "again": 1, "ended": 2}
    assert [event.status for event in events if event.what == "ended"] == [0, 0]
    for mine in jobs:
        assert results(mine.folder) == expected
        assert str(tmp_path) in (mine.folder / "config.json").read_text()
    cache = Path(os.environ["LOBSDICE_CACHE"]) / "ray"
    assert sorted(path.name for path in cache.rglob("*.npz")) == ["demos.npz", "logs.npz"]
    assert len(list(cache.iterdir())) == 2  # the data, and what the lost node left
