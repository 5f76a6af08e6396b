import os

import pytest

from lobsdice.data.files import atomic, cache_folder, write_csv
from lobsdice.errors import LobsDICEError


def test_a_file_appears_with_its_folders(tmp_path):
    with atomic(tmp_path / "a" / "b.txt") as temporary:
        temporary.write_text("new")
        assert not (tmp_path / "a" / "b.txt").exists()
    assert (tmp_path / "a" / "b.txt").read_text() == "new"
    assert os.listdir(tmp_path / "a") == ["b.txt"]


def test_the_temporary_path_keeps_the_suffix(tmp_path):
    with atomic(tmp_path / "b.npz") as temporary:
        temporary.touch()
        assert temporary.suffix == ".npz"


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "b.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["b.txt"]


def test_a_folder_replaces_a_folder(tmp_path):
    path = tmp_path / "data"
    path.mkdir()
    (path / "old").touch()
    with atomic(path) as temporary:
        temporary.mkdir()
        (temporary / "new").touch()
    assert os.listdir(path) == ["new"]
    assert os.listdir(tmp_path) == ["data"]


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names of open files are needed")
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_contents_reach_the_disk_before_their_name_and_the_name_before_the_end(
    tmp_path, monkeypatch, kind
):
    """So a power cut leaves the old contents or the new ones."""
    path, done = tmp_path / "data", []
    originals = {"fsync": os.fsync, "replace": os.replace}

    def sync(number):
        done.append(("sync", os.readlink(f"/proc/self/fd/{number}")))
        originals["fsync"](number)

    def rename(old, new):
        done.append(("rename", str(new)))
        originals["replace"](old, new)

    with atomic(path) as temporary:
        if kind == "folder":
            temporary.mkdir()
        written = temporary / "part" if kind == "folder" else temporary
        written.write_text("new")
        monkeypatch.setattr(os, "fsync", sync)
        monkeypatch.setattr(os, "replace", rename)
    within = [("sync", str(temporary))] if kind == "folder" else []
    ends = [("rename", str(path)), ("sync", str(tmp_path))]
    assert done == [("sync", str(written)), *within, *ends]


def test_a_failure_leaves_the_old_folder(tmp_path):
    path = tmp_path / "data"
    path.mkdir()
    (path / "old").touch()
    with pytest.raises(ZeroDivisionError), atomic(path) as temporary:
        temporary.mkdir()
        raise ZeroDivisionError
    assert os.listdir(path) == ["old"]
    assert os.listdir(tmp_path) == ["data"]


def test_an_interrupt_leaves_nothing_behind(tmp_path):
    with pytest.raises(KeyboardInterrupt), atomic(tmp_path / "b.txt") as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_told_in_a_sentence(tmp_path):
    sentence = r"cannot write .*b\.txt: No space left"
    with pytest.raises(LobsDICEError, match=sentence), atomic(tmp_path / "b.txt") as temporary:
        temporary.write_text("half")
        raise OSError(28, "No space left on device")
    assert os.listdir(tmp_path) == []


def test_a_file_in_the_way_is_told_in_a_sentence(tmp_path):
    (tmp_path / "a").touch()
    with pytest.raises(LobsDICEError, match="cannot write"), atomic(tmp_path / "a" / "b.txt"):
        pass


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("LOBSDICE_CACHE", raising=False)
    assert cache_folder() == tmp_path / "lobsdice"
    monkeypatch.setenv("LOBSDICE_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"


@pytest.mark.skipif(os.name != "posix", reason="needs users with numbers")
def test_a_user_without_a_home_is_told_to_name_a_cache_folder(monkeypatch):
    for name in ("LOBSDICE_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_242_424)  # as in a container
    with pytest.raises(LobsDICEError, match=r"no home folder; name a folder in \$LOBSDICE_CACHE"):
        cache_folder()


def test_a_csv_table_has_every_column_once_and_the_line_ends_that_are_asked_for(tmp_path):
    path = tmp_path / "new" / "table.csv"
    assert write_csv(path, [{"a": 1}, {"a": 2, "b": "x"}]) == path
    assert path.read_bytes() == b"a,b\n1,\n2,x\n"
    write_csv(path, [{"a": 1}], line_end="\r\n")
    assert path.read_bytes() == b"a\r\n1\r\n"
