"""Fleets as submitit's jobs: here in processes, with the signals that Slurm would send."""

import signal

import pytest
from small_fleets import job, results, run, signal_parent, whole

from lobsdice.errors import LobsDICEError
from lobsdice.executors.local import Local
from lobsdice.executors.options import Where
from lobsdice.executors.ray import Ray
from lobsdice.executors.slurm import Slurm

#: Shorter than ten minutes, so that submitit counts each signal as a time-out.
SHORT = {"timeout_min": 5}


def test_a_fleet_whose_time_is_over_is_queued_again_and_ends_as_if_it_had_not_been(tmp_path):
    mine = job(tmp_path / "fleet")
    executor = Slurm(tmp_path / "slurm", SHORT, retries=1, cluster="local")
    events = run(executor, [mine], lambda: signal_parent(mine, signal.SIGUSR2))
    assert [(event.what, event.status) for event in events] == [("begun", 0), ("ended", 0)]
    said = "".join(path.read_text() for path in (tmp_path / "slurm").glob("*_log.*"))
    assert "Requeued job" in said and "(0 remaining timeouts)" in said
    assert mine.log.read_text().count("compiling") == 2
    assert results(mine.folder) == whole(tmp_path / "whole")


def test_options_become_those_of_sbatch(tmp_path):
    where = Where(on="slurm", gpus=0.5, cpus=4, hours=1.5, memory=8.0, slurm=("partition=gpu",))
    executor = where.executor(tmp_path, jobs=3)
    assert isinstance(executor, Slurm) and executor.cores == 4
    assert executor.options == {
        "name": "lobsdice",
        "timeout_min": 90,
        "cpus_per_task": 4,
        "slurm_array_parallelism": 3,
        "mem_gb": 8.0,
        "gpus_per_node": 1,
        "slurm_additional_parameters": {"partition": "gpu"},
    }


def test_options_say_where_and_with_what_fleets_train(tmp_path):
    assert Where().executor(tmp_path) is None and Where().executor(tmp_path, jobs=1) is None
    assert Where(retries=2).executor(tmp_path, jobs=3) == Local(3, retries=2)
    ray = Where(on="ray", cpus=2, gpus=0.5, retries=1, storage="copied").executor(tmp_path, jobs=4)
    assert ray == Ray(cpus=2, gpus=0.5, retries=1, shared=False, at_a_time=4)


def test_wrong_options_are_refused(tmp_path):
    with pytest.raises(LobsDICEError, match="--slurm gpu is not of the form NAME=VALUE"):
        Where(slurm=("gpu",)).executor(tmp_path)
    with pytest.raises(LobsDICEError, match="`cpus` is 0; it must be at least 1"):
        Where(cpus=0).executor(tmp_path)


def test_without_slurm_an_error_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LobsDICEError, match=r"Slurm cannot be used here: .*srun"):
        next(Slurm(tmp_path / "slurm", SHORT).run([job(tmp_path / "fleet")]))
