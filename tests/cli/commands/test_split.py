"""`lobsdice data split`, run as a user runs it."""

import os

import pytest
from recordings import assert_same

from lobsdice.data.formats import read


def test_the_parts_of_a_split_are_disjoint_and_complete(lobsdice, tmp_path, recording, episodes):
    a, b = tmp_path / "a.npz", tmp_path / "b.npz"
    assert lobsdice("data", "split", recording, "--first", "3", "--out", a, "--rest", b).code == 0
    assert_same(read(a), episodes.select([0, 1, 2]))
    assert_same(read(b), episodes.select([3]))


def test_a_split_can_drop_the_actions_of_the_first_part(lobsdice, tmp_path, recording):
    a, b = tmp_path / "a.npz", tmp_path / "b.npz"
    words = ("--first", "1", "--out", a, "--rest", b, "--drop-actions")
    assert lobsdice("data", "split", recording, *words).code == 0
    assert read(a).actions is None and read(b).actions is not None


@pytest.mark.parametrize("first", ["0", "4", "9", "-1"])
def test_a_split_needs_two_parts(lobsdice, tmp_path, recording, first):
    parts = ("--out", tmp_path / "a.npz", "--rest", tmp_path / "b.npz")
    result = lobsdice("data", "split", recording, "--first", first, *parts)
    assert result.code == 2 and "of 4 episodes" in result.err
    assert os.listdir(tmp_path) == [recording.name]


def test_the_parts_of_a_split_need_two_names(lobsdice, tmp_path, recording):
    a = tmp_path / "a.npz"
    result = lobsdice("data", "split", recording, "--first", "1", "--out", a, "--rest", a)
    assert result.code == 2 and not a.exists()
