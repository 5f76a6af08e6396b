"""Fleets whose files lie elsewhere."""

from pathlib import Path

from lobsdice.executors.job import Job
from lobsdice.executors.remote import Mailbox, Sent, elsewhere, moved_paths


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


def test_what_a_program_writes_right_after_a_look_is_sent_at_its_end(tmp_path):
    sent = []
    folder = Sent(tmp_path, sent.append)
    (tmp_path / "metrics.csv").write_bytes(b"1")
    folder.look()
    (tmp_path / "metrics.csv").write_bytes(b"12")
    (tmp_path / "checkpoint.safetensors").write_bytes(b"")
    folder.look()  # too early
    assert sent == [{"metrics.csv": b"1"}]
    folder.send_new()
    assert sent[1:] == [{"metrics.csv": b"12", "checkpoint.safetensors": b""}]
    assert list(sent[1])[-1] == "checkpoint.safetensors"
    folder.send_new()
    assert len(sent) == 2


def test_files_of_a_machine_that_only_seemed_lost_are_thrown_away():
    mailbox = Mailbox()
    first, _ = mailbox.begin("fleet", "a")
    mailbox.send("fleet", first, {"metrics.csv": b"1"})
    second, files = mailbox.begin("fleet", "b")
    assert files == {"metrics.csv": b"1"}
    mailbox.send("fleet", second, {"metrics.csv": b"12"})
    mailbox.send("fleet", first, {"metrics.csv": b"1 late"})
    assert mailbox.begin("fleet", "c") == (3, {"metrics.csv": b"12"})
    assert [letter.attempt for letter in mailbox.take()] == [1, 0, 2, 0, 3]
