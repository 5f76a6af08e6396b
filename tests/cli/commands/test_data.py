"""The commands on data, each run as a user runs it."""

import json
import os
import signal
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import FORMATS, read, write

#: One suffix for each format; that of a Minari dataset, a folder, is empty.
SUFFIXES = [kind.suffixes[0] for kind in FORMATS]


def assert_same(found: Episodes, expected: Episodes) -> None:
    for name in ("observations", "lengths", "terminated", "actions", "rewards"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)


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
    [(b"", "empty"), (b"PK\x03\x04 and no more", "damaged"), (b"what is this", "unknown format")],
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
    assert lobsdice(*words).err.endswith("name it with --episode-column, one of run, obs_0\n")
    assert "and no --step-column orders" in lobsdice(*words, "--episode-column", "run").err


@pytest.mark.parametrize(("before", "after"), list(product(SUFFIXES, SUFFIXES)))
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
    assert result.code == 2 and "named twice" in result.err
    assert recording.read_bytes() == before


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


def test_join_labels_episodes_with_their_files(lobsdice, tmp_path, recording, episodes):
    a, b, both = (tmp_path / f"{name}.npz" for name in ("good", "bad", "both"))
    assert lobsdice("data", "split", recording, "--first", "1", "-o", a, "--rest", b).code == 0
    assert lobsdice("data", "join", a, b, "-o", both).code == 0
    assert_same(read(both), episodes)
    assert read(both).source_names == ("good", "bad")
    assert json.loads(lobsdice("data", "info", both, "--json").out)[0]["sources"] == {
        "good": 1,
        "bad": 3,
    }


def test_check_says_what_a_learner_sees(lobsdice, demonstrations, recording):
    files = ("--expert", demonstrations, "--offline", recording)
    report = json.loads(lobsdice("data", "check", *files, "--json").out)
    assert report["expert_pairs"] == 7
    assert report["offline_transitions"] == 10
    assert report["initial_states"] == 4
    assert report["expert_pairs_in_offline"] == 0
    assert "offline transitions 10" in " ".join(lobsdice("data", "check", *files).out.split())


def test_columns_in_another_order_are_noticed_even_after_a_conversion(lobsdice, tmp_path):
    rows = "episode,obs_level,obs_flow,action_0\n0,1,7,-0.5\n0,2,8,1\n0,3,9,\n"
    swapped = "episode,obs_flow,obs_level\n0,5,2\n0,6,3\n"
    for name, text in (("logs", rows), ("demos", swapped)):
        (tmp_path / f"{name}.csv").write_text(text)
        lobsdice("data", "convert", tmp_path / f"{name}.csv", tmp_path / f"{name}.npz")
    assert "obs_level" in lobsdice("data", "info", tmp_path / "logs.npz").out
    files = ("--expert", tmp_path / "demos.npz", "--offline", tmp_path / "logs.npz")
    assert "column 0 is 'obs_flow', not 'obs_level'" in lobsdice("data", "check", *files).err


def test_check_takes_the_options_of_prepare(lobsdice, demonstrations, recording):
    options = ("--initial", "all", "--terminal", "absorbing", "--subsample", "2")
    files = ("--expert", demonstrations, "--offline", recording)
    report = json.loads(lobsdice("data", "check", *files, *options, "--json").out)
    assert report["initial_states"] == 10
    assert report["state_size"] == 4


def test_check_refuses_a_leak_unless_it_is_meant(lobsdice, recording):
    files = ("--expert", recording, "--offline", recording)
    result = lobsdice("data", "check", *files)
    assert result.code == 2 and "10 of the 10 expert pairs" in result.err
    report = json.loads(lobsdice("data", "check", *files, "--allow-leak", "--json").out)
    assert report["expert_pairs_in_offline"] == 10


def test_check_takes_several_offline_files(lobsdice, tmp_path, demonstrations, recording):
    a, b = tmp_path / "a.npz", tmp_path / "b.npz"
    assert lobsdice("data", "split", recording, "--first", "1", "-o", a, "--rest", b).code == 0
    result = lobsdice("data", "check", "--expert", demonstrations, "--offline", a, b, "--json")
    assert json.loads(result.out)["sources"] == {"a": 3, "b": 7}


def test_demonstrations_need_not_have_the_columns_of_actions(lobsdice, tmp_path):
    """The options are for all files, but the demonstrations have no actions."""
    demos, logs = tmp_path / "demos.csv", tmp_path / "logs.csv"
    demos.write_text("episode,obs_0\n0,0\n0,1\n0,2\n1,0\n1,2\n")
    logs.write_text("episode,obs_0,torque_0\n0,0,0.5\n0,3,1\n0,1,\n1,2,0\n1,0,1\n1,3,\n")
    named = ("--action-columns", "torque*", "--action-low", "-1", "--action-high", "1")
    files = ("--expert", demos, "--offline", logs)
    report = json.loads(lobsdice("data", "check", *files, *named, "--json").out)
    assert (report["expert_pairs"], report["offline_transitions"]) == (3, 4)
    mistaken = lobsdice("data", "check", "--expert", logs, "--offline", demos, *named)
    assert mistaken.code == 2
    assert f"{demos}: the action pattern 'torque*' matches no column" in mistaken.err


def test_check_refuses_offline_data_without_actions(lobsdice, demonstrations):
    result = lobsdice("data", "check", "--expert", demonstrations, "--offline", demonstrations)
    assert result.code == 2 and "no actions" in result.err


def test_collect_writes_a_file_a_source(lobsdice, tmp_path):
    words = ("data", "collect", "hopper", "--expert", "0", "--medium", "0", "--random", "2")
    result = lobsdice(*words, "-o", tmp_path)
    assert result.code == 0 and result.out.endswith(f"wrote {tmp_path}\n")
    assert os.listdir(tmp_path) == ["random.npz"]
    assert len(read(tmp_path / "random.npz")) == 2
    (report,) = json.loads(lobsdice(*words, "-o", tmp_path, "--json").out)
    assert report["episodes"] == 2


def test_collect_knows_its_tasks(lobsdice, tmp_path):
    result = lobsdice("data", "collect", "swimmer", "-o", tmp_path)
    assert result.code == 2 and "hopper" in result.err and len(result.err.splitlines()) == 1


def test_an_interrupted_collection_says_so_and_writes_nothing(tmp_path):
    code = (
        "import sys; from lobsdice import cli, console; console.SECONDS_BETWEEN_LINES = 0;"
        "sys.exit(cli.main(['data', 'collect', 'hopper', '--workers', '2', '-o', 'data']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("Collecting hopper")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted" and "Traceback" not in err
    assert not list(tmp_path.iterdir())
