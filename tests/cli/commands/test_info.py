"""`lobsdice data info`, run as a user runs it."""

import json

import numpy as np
import pytest
from recordings import SUFFIXES

from lobsdice.data.formats import write


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_info_describes_a_file_of_each_format(lobsdice, tmp_path, episodes, suffix):
    path = tmp_path / f"file{suffix}"
    write(path, episodes)
    result = lobsdice("data", "info", path)
    assert result.code == 0 and not result.err
    for fact in ("episodes 4", "steps 10", "terminated 2", "actions 2 real numbers"):
        assert fact in " ".join(result.out.split())


def test_info_as_json_holds_the_numbers(lobsdice, recording, episodes):
    result = lobsdice("data", "info", recording, "--json")
    (report,) = json.loads(result.out)
    assert report["path"] == str(recording)
    assert (report["episodes"], report["steps"], report["truncated"]) == (4, 10, 2)
    assert report["lengths"]["max"] == 4
    assert (report["actions"]["low"], report["actions"]["high"]) == ([-1, -1], [1, 1])
    means = report["observations"]["mean"]
    np.testing.assert_allclose(means, episodes.observations.mean(axis=0), rtol=1e-5)
    assert report["warnings"] == []


def test_info_describes_several_files(lobsdice, recording, demonstrations):
    result = lobsdice("data", "info", recording, demonstrations, "--json")
    first, second = json.loads(result.out)
    assert first["actions"] is not None and second["actions"] is None
    assert lobsdice("data", "info", recording, demonstrations).code == 0


def test_options_about_actions_may_fit_only_some_of_several_files(lobsdice, tmp_path):
    logs, demos = tmp_path / "logs.csv", tmp_path / "demos.csv"
    logs.write_text("episode,x,force\n0,1,0.5\n0,2,\n")
    demos.write_text("episode,x\n0,1\n0,2\n")
    named = ["--observation-columns", "x", "--action-columns", "force"]
    result = lobsdice("data", "info", logs, demos, *named, "--json")
    first, second = json.loads(result.out)
    assert first["actions"] is not None and second["actions"] is None
    assert "matches no column" in lobsdice("data", "info", demos, *named).err


def test_info_without_a_file_says_so(lobsdice):
    result = lobsdice("data", "info")
    assert result.code == 2 and "name at least one file" in result.err


def test_info_warns_in_one_line_and_in_the_json(lobsdice, odd_recording):
    result = lobsdice("data", "info", odd_recording, "--json")
    (line,) = result.err.splitlines()
    assert line == f"warning: {odd_recording}: observations are constant in column 1"
    assert json.loads(result.out)[0]["warnings"] == [line.removeprefix("warning: ")]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "empty"),
        (b"PK\x03\x04 and no more", "damaged"),
        (b"what is this", "the format is unknown"),
    ],
)
def test_a_bad_file_is_an_error_of_one_line(lobsdice, tmp_path, content, complaint):
    path = tmp_path / "bad.xyz"
    path.write_bytes(content)
    result = lobsdice("data", "info", path)
    assert (result.code, result.out) == (2, "")
    (line,) = result.err.splitlines()
    assert line.startswith(f"error: {path}: ") and complaint in line


def test_errors_and_warnings_call_options_as_the_command_line_does(lobsdice, tmp_path):
    path = tmp_path / "logs.csv"
    path.write_text("run,obs_0\n1,0.5\n2,0.6\n1,0.7\n2,0.8\n")
    words = ("data", "info", path)
    assert "choose one with --episode-column: run, obs_0; or set --one-" in lobsdice(*words).err
    assert "and no --step-column orders" in lobsdice(*words, "--episode-column", "run").err
