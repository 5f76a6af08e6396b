"""Fleets whose files lie elsewhere."""

from pathlib import Path

from lobsdice.executors.job import Job
from lobsdice.executors.remote import elsewhere, moved_paths


def test_paths_of_files_and_of_the_folders_that_hold_them_are_renamed():
    mine = Job(
        Path("/out/runs/a"),
        ("-c", "/out/runs/a", '{"data": "d4rl:/data/sets", "other": "/data/setsb", "x": "/out"}'),
        data=(Path("/data/sets/hopper.hdf5"),),
        variables=(("CACHE", "/data"),),
    )
    moved = moved_paths(map(str, mine.data), Path("/copy")) | {"/out/runs/a": "/copy/out"}
    found = elsewhere(mine, moved)
    assert found.folder == Path("/copy/out") and found.arguments == (
        "-c",
        "/copy/out",
        '{"data": "d4rl:/copy/data/sets", "other": "/copy/data/setsb", "x": "/out"}',
    )
    assert found.variables == (("CACHE", "/copy/data"),)
