"""`lobsdice data convert`, run as a user runs it."""

import os

import numpy as np
import pytest
from recordings import SUFFIXES, assert_same

from lobsdice.data.formats import read, write

#: Every format is read into the same episodes and written from them: one partner is enough.
PAIRS = [*((suffix, ".npz") for suffix in SUFFIXES), *((".npz", suffix) for suffix in SUFFIXES)]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_convert_loses_nothing_between_any_two_formats(lobsdice, tmp_path, episodes, before, after):
    there, back = tmp_path / f"a{before}", tmp_path / f"b{after}"
    write(there, episodes)
    result = lobsdice("data", "convert", there, back)
    assert (result.code, result.err) == (0, f"wrote {back}: 4 episodes, 10 steps\n")
    assert_same(read(back), episodes)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_convert_can_drop_the_actions(lobsdice, tmp_path, recording, episodes, suffix):
    out = tmp_path / f"demos{suffix}"
    assert lobsdice("data", "convert", recording, out, "--drop-actions").code == 0
    assert read(out).actions is None
    np.testing.assert_array_equal(read(out).observations, episodes.observations)


def test_convert_to_an_unknown_format_writes_nothing(lobsdice, tmp_path, recording):
    result = lobsdice("data", "convert", recording, tmp_path / "b.xyz")
    assert result.code == 2 and len(result.err.splitlines()) == 1
    assert os.listdir(tmp_path) == [recording.name]


def test_no_output_replaces_an_input(lobsdice, recording):
    before = recording.read_bytes()
    result = lobsdice("data", "convert", recording, recording, "--drop-actions")
    assert result.code == 2 and "is an input or another output, too" in result.err
    assert recording.read_bytes() == before


def test_a_file_that_exists_is_replaced_only_by_force(lobsdice, tmp_path, recording, episodes):
    out, rest = tmp_path / "out.npz", tmp_path / "rest.npz"
    for words in (
        ("convert", recording, out),
        ("join", recording, "--out", out),
        ("split", recording, "--first", "1", "--out", rest, "--rest", out),
    ):
        out.write_text("mine")
        result = lobsdice("data", *words)
        assert (result.code, result.err) == (2, f"error: {out} exists; --force replaces it\n")
        assert out.read_text() == "mine" and not rest.exists()
        assert lobsdice("data", *words, "--force").code == 0
        assert read(out).state_size == episodes.state_size
