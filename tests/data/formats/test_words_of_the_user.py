"""Messages about tables use the user's names of episodes and the lines of the file."""

import re
import warnings

import numpy as np
import pytest

from lobsdice.data.episodes import Episodes, concatenate, mixture
from lobsdice.data.formats import ReadOptions, read, write
from lobsdice.data.machine import at_most
from lobsdice.errors import DataWarning, LobsDICEError
from tests.recordings import SUFFIXES


def read_and_warn(path, **options):
    """The episodes of a file, and all warnings about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        episodes = read(path, ReadOptions(**options))
    return episodes, " | ".join(str(warning.message) for warning in caught)


def saved(path, *rows):
    path.write_text("\n".join(("episode,step,obs_0,action_0", *rows)) + "\n")
    return path


@pytest.fixture
def gaps(tmp_path):
    """Two episodes: in T0137 five ticks are missing, in T0138 none."""
    times = [("T0137", 0), ("T0137", 1), ("T0137", 6), ("T0137", 7), ("T0138", 0), ("T0138", 1)]
    rows = (f"{name},{t},{t}.5,0.25" for name, t in times)
    return saved(tmp_path / "logs.csv", *rows)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_names_of_episodes_survive_every_format(suffix, tmp_path):
    episodes = Episodes.from_arrays(
        np.arange(8.0)[:, None], lengths=[1, 2, 2], actions=np.zeros((5, 1)),
        episode_names=["T7", "T0137", "T2"], terminated=[0, 1, 0],
    )  # fmt: skip
    path = tmp_path / f"named{suffix}"
    write(path, episodes)
    assert read(path).episode_names == ("T7", "T0137", "T2")


def test_selections_and_mixtures_keep_names_and_add_the_source(gaps):
    episodes, _ = read_and_warn(gaps)
    assert episodes.episode_names == ("T0137", "T0138")
    assert episodes.select([1]).called(0) == "T0138"
    both = mixture({"monday": episodes, "friday": episodes.select([1])})
    assert both.called(2) == "T0138 of friday"
    plain = Episodes.from_arrays([[0.0], [1.0]], lengths=[1], actions=np.zeros((1, 1)))
    assert concatenate([episodes, plain]).episode_names == ("T0137", "T0138", "0")
    assert plain.called(0) == "0"


def test_episodes_that_the_file_counts_from_0_have_no_names(tmp_path):
    path = saved(tmp_path / "a.csv", "0,0,1,0.5", "0,1,2,", "1,0,1.5,0.5", "1,1,2.5,")
    assert read_and_warn(path)[0].episode_names == ()


def test_there_is_a_name_for_each_episode_or_for_none():
    with pytest.raises(LobsDICEError, match="there are 1 episode, but 2 episode_names"):
        Episodes.from_arrays([[0.0], [1.0]], lengths=[1], episode_names=["a", "b"])


def test_the_line_counts_the_header_empty_lines_and_line_breaks_in_cells(tmp_path):
    path = saved(tmp_path / "a.csv", '"T\n1",0,1,0.5', "", '"T\n1",1,two,')
    with pytest.raises(LobsDICEError, match=r"'obs_0', row 1 \(line 5\): 'two' is not a number"):
        read(path)


def test_a_cell_that_looks_like_a_row_far_beyond_the_file_takes_no_memory(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("episode,obs_0\n0,1\n0,row 3000000000\n0,2\n")
    with at_most(1 << 30), pytest.raises(LobsDICEError, match=r"row 1 \(line 3\): .*line unknown"):
        read(path)


def test_a_gap_in_time_is_a_warning_with_its_place(gaps):
    words = (
        r"logs.csv: 1 gap in time inside episodes, the longest of 5 before row 2 \(line 4\) of "
        "episode T0137, where steps usually take 1; each became one transition: `max_gap` splits"
    )
    episodes, said = read_and_warn(gaps)
    assert episodes.lengths.tolist() == [3, 1]
    assert re.search(words, said)


def test_max_gap_splits_an_episode_at_its_gaps(gaps):
    episodes, said = read_and_warn(gaps, max_gap=4.0)
    assert "episodes were split there" in said
    assert "the last row of 2 episodes holds an action" in said  # those that no gap ended
    assert episodes.lengths.tolist() == [1, 1, 1]
    assert episodes.episode_names == ("T0137 part 1", "T0137 part 2", "T0138")
    assert episodes.observations[:, 0].tolist() == [0.5, 1.5, 6.5, 7.5, 0.5, 1.5]


def test_only_the_last_part_of_a_split_episode_ends_and_succeeds(tmp_path):
    head = "episode,step,obs_0,action_0,terminated,success"
    rows = ("a,0,1,1,0,1", "a,1,2,,0,1", "a,9,3,1,0,1", "a,10,4,,1,1")
    (tmp_path / "a.csv").write_text("\n".join((head, *rows)))
    episodes, _ = read_and_warn(tmp_path / "a.csv", max_gap=4.0)
    assert episodes.terminated.tolist() == [False, True]
    assert episodes.success is not None and episodes.success.tolist() == [-1, 1]


def test_gaps_of_times_are_in_seconds_and_jitter_is_none(tmp_path):
    clock = ("10:00:00.00", "10:00:00.12", "10:00:00.19", "10:00:00.32", "10:01:00.32")
    rows = [f"A,2026-03-01 {at},{i},0.5" for i, at in enumerate(clock)]
    said = read_and_warn(saved(tmp_path / "gap.csv", *rows))[1]
    assert "1 gap in time inside episodes, the longest of 60 s before row 4 (line 6)" in said
    assert "gap in time" not in read_and_warn(saved(tmp_path / "jitter.csv", *rows[:-1]))[1]
    longer = saved(tmp_path / "longer.csv", *rows, "A,2026-03-01 10:01:01,9,1")
    assert read_and_warn(longer, max_gap=9.0)[0].lengths.tolist() == [3, 1]


def test_max_gap_needs_times(tmp_path):
    (tmp_path / "a.csv").write_text("episode,obs_0,action_0\n0,1,1\n0,2,\n")
    with pytest.raises(LobsDICEError, match="`max_gap` needs a column of times"):
        read(tmp_path / "a.csv", ReadOptions(max_gap=1.0))


@pytest.mark.parametrize("name", ["done", "isTerminal", "docked", "goal_reached", "next.success"])
def test_an_unused_column_that_may_mark_ends_is_named(name, tmp_path):
    rows = ("a,0,1,0.5,0", "a,1,2,-0.5,0", "a,2,3,,1")
    path = tmp_path / "a.csv"
    path.write_text("\n".join((f"episode,step,obs_0,action_0,{name}", *rows)))
    said = read_and_warn(path)[1]
    assert f"every episode counts as truncated, although '{name}' may mark ends" in said
    assert read_and_warn(path, terminated_column=name)[0].terminated.tolist() == [True]


def test_a_column_that_is_read_is_not_named_as_unused(tmp_path):
    head = "episode,step,obs_last_force,obs_x,action_0"
    (tmp_path / "a.csv").write_text(f"{head}\na,0,1,2,0.5\na,1,2,3,\n")
    assert "may mark ends" not in read_and_warn(tmp_path / "a.csv")[1]


def test_factors_of_columns_that_only_the_logs_have_are_no_mistake_in_demonstrations(tmp_path):
    (tmp_path / "a.csv").write_text("episode,step,obs_m\na,0,1\na,1,2\n")
    options = ReadOptions(scale=("obs_mm=0.001",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(tmp_path / "a.csv", options.unlabelled())
    with pytest.warns(DataWarning, match="`scale` names 'obs_mm', which is no column"):
        read(tmp_path / "a.csv", options)
