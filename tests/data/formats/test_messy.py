"""Files as machines write them: other signs, compressed, one an episode, texts as actions."""

import gzip
import warnings
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from lobsdice.data.episodes import Episodes, concatenate
from lobsdice.data.formats import DEFAULTS, ReadOptions, read, write
from lobsdice.data.formats.options import read_options
from lobsdice.data.prepare import prepare
from lobsdice.data.recordings import read_both
from lobsdice.data.spaces import Box, Discrete
from lobsdice.errors import DataWarning, LobsDICEError

ROWS = [("0", 0, 0.5, 1.25, -1.0), ("0", 1, 1.5, 2.25, 1.0), ("0", 2, 2.5, 3.25, None)]


def text(separator=",", decimal=".", header=True, names=("episode", "step", "x", "y", "u")) -> str:
    lines = [separator.join(names)] if header else []
    for row in ROWS:
        cells = ["" if cell is None else str(cell).replace(".", decimal) for cell in row]
        lines.append(separator.join(cells))
    return "\n".join(lines) + "\n"


Found = TypeVar("Found")


def some(found: Found | None) -> Found:
    assert found is not None
    return found


def put(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


COLUMNS: dict[str, Any] = {
    "observation_columns": ["x", "y"],
    "action_columns": "u",
    "action_kind": "continuous",
}


def check(episodes: Episodes) -> None:
    np.testing.assert_array_equal(episodes.observations, [[0.5, 1.25], [1.5, 2.25], [2.5, 3.25]])
    np.testing.assert_array_equal(episodes.actions, [[-1.0], [1.0]])


def zstd(content: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content.encode())
    return sink.getvalue().to_pybytes()


MESSY = {
    "semicolons": ("a.csv", text(";"), {}),
    "tabs": ("a.csv", text("\t"), {}),
    "blanks around names": ("a.csv", text(", "), {}),
    "a sign that is stated": ("a.csv", text("|"), {"separator": "|"}),
    "decimal commas that are stated": ("a.csv", text("\t", ","), {"decimal": ","}),
    "comments": (
        "a.csv",
        "# recorded in May\n" + text().replace("\n0,1", "\n  # a pause, 2 s\n0,1"),
        {"comment": "#"},
    ),
    "gzip": ("a.csv.gz", gzip.compress(text().encode()), {}),
    "zstd": ("a.csv.zst", zstd(text()), {}),
    "gzip with tabs": ("a.tsv.gz", gzip.compress(text("\t").encode()), {}),
}


@pytest.mark.parametrize("case", MESSY)
def test_a_messy_file_is_read_like_a_tidy_one(case, tmp_path):
    name, content, options = MESSY[case]
    check(read(put(tmp_path / name, content), **COLUMNS, **options))


WRONG_SIGNS = {
    "points": (text(";"), {"decimal": ","}, r"row 0 \(line 2\): '0.5' is not a number with ',' be"),
    "commas": (
        text("\t", ","),
        {"decimal": "."},
        r"'0,5' is not a number with '.' before decimals",
    ),
}


@pytest.mark.parametrize("case", WRONG_SIGNS)
def test_a_wrong_sign_before_decimals_is_named(case, tmp_path):
    content, options, words = WRONG_SIGNS[case]
    columns: Any = {"observation_columns": ["x", "y"], "action_columns": "u", **options}
    with pytest.raises(LobsDICEError, match=f"{words}.*state it as `decimal`"):
        read(put(tmp_path / "a.csv", content), **columns)


@pytest.mark.parametrize("title", ["Plant 7; exported 2026-04-02\n", "Plant 7\n\nMay, June\n"])
def test_lines_above_the_header_are_named(title, tmp_path):
    path, line = put(tmp_path / "a.csv", title + text()), title.count("\n") + 1
    with pytest.raises(LobsDICEError, match=f"line {line} looks like the header, and line 1 does"):
        read(path, observation_columns=["x", "y"], action_columns="u")


def test_a_header_above_decimal_commas_is_a_header(tmp_path):
    with pytest.raises(LobsDICEError, match=r"a\.csv: no column is named like an observation"):
        read(put(tmp_path / "a.csv", text(";", ",", names=("episode", "step", "x", "y", "v"))))


@pytest.mark.parametrize("sign", [";", "|", "\t"])
def test_a_first_line_that_states_the_separator_is_read(sign, tmp_path):
    content = f"sep={sign}\n{text(sign)}"
    check(read(put(tmp_path / "a.csv", content), **COLUMNS))
    check(read(put(tmp_path / "a.csv.gz", gzip.compress(content.encode())), **COLUMNS))
    with pytest.raises(LobsDICEError, match=r"row 1 \(line 4\): 'oops' is not a number"):
        read(put(tmp_path / "b.csv", content.replace("1.5", "oops")), **COLUMNS)


def test_decimal_commas_are_found_and_said(tmp_path):
    path = put(tmp_path / "a.csv", text(";", ","))
    with pytest.warns(DataWarning, match="commas were read as decimal points"):
        check(read(path, **COLUMNS))


def test_columns_without_a_header_are_numbered(tmp_path):
    path = put(tmp_path / "a.csv", text(";", header=False))
    options = {"header": False, "episode_column": "0", "step_column": "1", "action_columns": ["4"]}
    check(read(path, observation_columns=["2", "3"], action_kind="continuous", **options))


def test_an_error_names_the_line_behind_comments_and_compression(tmp_path):
    content = "# one\n" + text().replace("1.5", "oops")
    path = put(tmp_path / "a.csv.gz", gzip.compress(content.encode()))
    with pytest.raises(LobsDICEError, match=r"column 'x', row 1 \(line 4\): 'oops' is not a num"):
        read(path, comment="#", **COLUMNS)


def test_comments_that_no_option_names_get_a_hint(tmp_path):
    with pytest.raises(LobsDICEError, match="set `comment` to '#'"):
        read(put(tmp_path / "a.csv", "# recorded\n" + text()), **COLUMNS)


def test_text_that_unpacks_to_far_more_than_the_file_is_refused(tmp_path):
    path = put(tmp_path / "a.csv.zst", zstd("episode,x\n" + "0,1\n" * 20_000_000))
    with pytest.raises(LobsDICEError, match="the text claims to have"):
        read(path, observation_columns="x")


def test_an_archive_that_is_compressed_once_more_is_a_sentence(tmp_path):
    write(tmp_path / "a.npz", Episodes.from_arrays(np.eye(3), lengths=[2]))
    path = put(tmp_path / "a.npz.gz", gzip.compress((tmp_path / "a.npz").read_bytes()))
    with pytest.raises(LobsDICEError, match="only CSV files are read while they are compressed"):
        read(path)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv.zst", "a.tsv.gz"])
def test_compressed_files_are_written_too(name, tmp_path):
    episodes = Episodes.from_arrays(np.eye(3), lengths=[2], actions=[[0.5], [-0.5]])
    write(tmp_path / name, episodes)
    found = read(tmp_path / name)
    np.testing.assert_array_equal(found.observations, episodes.observations)


# ---- Times ----

TIMES = {
    "with a T": ["2026-03-01T08:00:00.5", "2026-03-01T08:00:01", "2026-03-01T08:00:01.25"],
    "with points": ["01.03.2026 23:59:59", "02.03.2026 00:00:00", "01.04.2026 00:00:00"],
    "slashes, the day known": ["03/01/2026 10:00", "03/02/2026 09:00", "03/13/2026 08:00"],
    "with names of months": ["28 Feb 2026 9:00 AM", "28 Feb 2026 1:00 PM", "1 Mar 2026 1:00 AM"],
    "of C": ["Sun Mar  1 08:00:00 2026", "Sun Mar  1 08:00:01 2026", "Mon Mar  2 07:00:00 2026"],
    "compact": ["20260301_080000", "20260301_080001", "20260302_070000"],
    "clocks": ["08:00:00,250", "08:00:00,750", "09:00:00,000"],
    "years first": ["2026/03/01 08:00:00", "2026/03/02 07:00:00", "2026/10/01 06:00:00"],
}


@pytest.mark.parametrize("case", TIMES)
@pytest.mark.filterwarnings("ignore:.*gap:lobsdice.errors.DataWarning")
def test_times_of_any_clear_form_order_the_rows(case, tmp_path):
    rows = [f"0;{time};{i}" for i, time in enumerate(TIMES[case])]
    path = put(tmp_path / "a.csv", "\n".join(["episode;when;x", rows[2], rows[0], rows[1]]) + "\n")
    found = read(path, step_column="when", observation_columns="x", separator=";")
    np.testing.assert_array_equal(found.observations[:, 0], [0, 1, 2])


def test_dates_with_two_meanings_are_refused(tmp_path):
    path = put(tmp_path / "a.csv", "episode,when,x\n0,03/01/2026,1\n0,04/01/2026,2\n")
    with pytest.raises(LobsDICEError, match="may have the day first or the month first"):
        read(path, step_column="when", observation_columns="x")


def test_clocks_that_pass_midnight_are_refused(tmp_path):
    path = put(tmp_path / "a.csv", "episode,when,x\n0,23:59:59,1\n0,00:00:01,2\n0,00:00:02,2\n")
    with pytest.raises(LobsDICEError, match=r"column 'when', row 1 .*: the time goes back"):
        read(path, step_column="when", observation_columns="x")


# ---- Units ----


def test_a_factor_changes_units_and_the_name_tells_it(tmp_path):
    path = put(tmp_path / "a.csv", text(names=("episode", "step", "x", "y", "u")))
    found = read(path, **COLUMNS, scale={"x": 1000.0, "u": 0.5}, action_low=-0.5, action_high=0.5)
    np.testing.assert_array_equal(found.observations[:, 0], [500, 1500, 2500])
    np.testing.assert_array_equal(found.actions, [[-0.5], [0.5]])
    assert found.observation_names == ("x*1000", "y")
    assert found.action_space == Box((-0.5,), (0.5,))
    assert some(found.action_space).names == ("u*0.5",)


def test_bounds_in_the_file_are_scaled_with_the_actions(tmp_path):
    box = Box((-2.0,), (4.0,), names=("u",))
    actions = [[1.0], [4.0]]
    episodes = Episodes.from_arrays(np.eye(3), lengths=[2], actions=actions, action_space=box)
    write(tmp_path / "a.npz", episodes)
    assert read(tmp_path / "a.npz", scale="u=-0.5").action_space == Box((-2.0,), (1.0,))


def test_a_factor_for_nothing_is_said(tmp_path):
    with pytest.warns(DataWarning, match="`scale` names 'z', which is no column that was read"):
        read(put(tmp_path / "a.csv", text()), **COLUMNS, scale="z=2")


@pytest.mark.parametrize("entry", ["x", "x=", "=2", "x=0", "x=nan", "x=a"])
def test_a_factor_that_is_none_is_a_sentence(entry):
    with pytest.raises(LobsDICEError, match="`scale` has"):
        ReadOptions(scale=(entry,))


# ---- Folders ----


def one_episode(first: float, size: int = 3, columns: str = "x,y,u,v") -> str:
    rows = [f"{first + i},{i},{first + i},{-i}" for i in range(size)]
    return "\n".join([columns, *rows]) + "\n"


FOLDER: dict[str, Any] = {"observation_columns": ["x", "y"], "action_columns": ["u", "v"]}


@pytest.fixture
def folder(tmp_path) -> Path:
    for number, first in ((10, 7.0), (2, 4.0), (1, 1.0)):
        put(tmp_path / f"run_{number}.csv", one_episode(first))
    put(tmp_path / "README.txt", "not data")
    return tmp_path


@pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")
def test_a_folder_has_one_file_an_episode_in_the_order_of_numbers(folder):
    for path in (folder, folder / "run_*.csv"):
        found = read(path, **FOLDER)
        assert found.episode_names == ("run_1", "run_2", "run_10")
        np.testing.assert_array_equal(found.observations[found.starts, 0], [1, 4, 7])
        # The bounds are those of all files: the last row of an episode has no action.
        assert found.action_space == Box((1.0, -1.0), (8.0, 0.0))


def test_a_folder_warns_once_of_all_files(folder):
    with pytest.warns(DataWarning) as caught:
        read(folder, **FOLDER)
    sentences = [str(warning.message) for warning in caught]
    assert any("run_1.csv and 2 more: the last row of 1 episode holds" in s for s in sentences)
    assert sum("no bounds of the actions" in sentence for sentence in sentences) == 1


def test_a_folder_warns_once_of_gaps_that_differ_only_in_their_numbers(tmp_path):
    for number, missing in {1: (2, 3), 2: (4, 5), 3: (1, 2, 5, 6), 4: ()}.items():
        rows = [f"{0.1 * i:.1f},{i}" for i in range(9) if i not in missing]
        put(tmp_path / f"run_{number}.csv", "\n".join(["t,x", *rows]) + "\n")
    with pytest.warns(DataWarning) as caught:
        found = read(tmp_path, step_column="t", observation_columns="x", max_gap=0.25)
    (said,) = (str(warning.message) for warning in caught if "gap" in str(warning.message))
    assert "run_1.csv: 1 gap" in said and said.endswith("; similarly in 2 other files")
    assert found.episode_names[:3] == ("run_1 part 1", "run_1 part 2", "run_2 part 1")


def test_a_gap_of_three_steps_is_found_whatever_the_digits_of_the_clock(tmp_path):
    for start in np.linspace(1e9, 1e9 + 1, 7):
        rows = [f"0,{start + 0.1 * i:.3f},{i}" for i in (0, 1, 2, 3, 6, 7, 8)]
        path = put(tmp_path / "a.csv", "\n".join(["episode,t,x", *rows]) + "\n")
        with pytest.warns(DataWarning, match="1 gap in time"):
            read(path, step_column="t", observation_columns="x")


def test_an_error_in_a_folder_names_the_file(folder):
    put(folder / "run_2.csv", one_episode(1.0).replace("2.0", "oops"))
    with pytest.raises(LobsDICEError, match=r"run_2.csv: column 'x', row 1 \(line 3\): 'oops'"):
        read(folder, **FOLDER)


@pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")
def test_actions_in_another_order_are_refused_by_name(folder):
    for run, columns in {1: "x,y,gas,gear", 2: "x,y,gear,gas", 10: "x,y,gas,gear"}.items():
        put(folder / f"run_{run}.csv", one_episode(1.0, columns=columns))
    with pytest.raises(LobsDICEError, match=r"run_2\.csv has its actions in another order"):
        read(folder, observation_columns=["x", "y"], action_columns="g*")
    named = read(folder, observation_columns=["x", "y"], action_columns=["gas", "gear"])
    assert named.actions is not None  # named in one order, they are matched


def test_columns_without_names_are_chosen_by_their_numbers(tmp_path):
    path = put(tmp_path / "a.csv", "1,2,3,0.5\n4,5,6,\n")
    chosen = {"observation_columns": [2, 0], "action_columns": 3, "action_low": 0, "action_high": 1}
    found = read(path, header=False, one_episode=True, **chosen)
    assert found.observations.tolist() == [[3, 1], [6, 4]]
    assert some(found.actions).tolist() == [[0.5]] and found.action_space == Box((0.0,), (1.0,))


def test_archives_of_one_episode_are_read(tmp_path):
    rows = np.arange(8.0).reshape(4, 2)
    np.savez(tmp_path / "b.npz", observations=rows, actions=rows[:3] / 10, terminated=True)
    np.savez(tmp_path / "a.npz", obs=rows + 9, actions=rows / 10, rewards=np.arange(4.0), success=1)
    found = read_quietly(tmp_path)
    assert found.lengths.tolist() == [3, 3] and found.terminated.tolist() == [False, True]
    np.testing.assert_array_equal(some(found.actions)[3:], (rows[:3] / 10).astype(np.float32))
    np.testing.assert_array_equal(found.success, [1, -1])


@pytest.mark.parametrize(
    ("actions", "marks", "ended"),
    [
        (3, [0, 0, 1], True),
        (3, [0, 0, 0, 1], True),
        (3, [0, 1, 0], False),
        (4, [0, 0, 0, 1], False),
    ],
)
def test_an_archive_of_one_episode_terminates_if_the_result_of_its_last_action_is_marked(
    actions, marks, ended, tmp_path, recwarn
):
    rows = np.linspace(-1, 1, 4)[:, None]
    np.savez(tmp_path / "a.npz", observations=rows, actions=rows[:actions], terminated=marks)
    found = read(tmp_path)
    assert found.lengths.tolist() == [3] and found.terminated.tolist() == [ended]
    said = [str(warning.message) for warning in recwarn]
    assert any("the episode counts as truncated" in sentence for sentence in said) == (actions == 4)


def test_several_formats_in_a_folder_are_refused(folder):
    np.savez(folder / "a.npz", observations=np.eye(2))
    with pytest.raises(LobsDICEError, match="files of several formats: CSV file and NumPy archive"):
        read(folder)


def test_a_table_without_episodes_is_one_only_if_that_is_said(tmp_path):
    path = put(tmp_path / "a.csv", "obs_0\n1\n2\n")
    with pytest.raises(LobsDICEError, match="or set `one_episode`"):
        read(path)
    assert read(path, one_episode=True).lengths.tolist() == [1]


# ---- Actions with names ----

LEFT_RIGHT = "episode,obs_0,action\n0,1,right\n0,2,left\n0,3,right\n0,4,\n"


def test_texts_are_discrete_actions(tmp_path):
    found = read(put(tmp_path / "a.csv", LEFT_RIGHT))
    assert found.action_space == Discrete(2, ("left", "right"))
    assert some(found.actions).tolist() == [1, 0, 1]


def test_blanks_around_names_of_actions_do_not_count(tmp_path):
    found = read(put(tmp_path / "a.csv", LEFT_RIGHT.replace("left", " left ")))
    assert found.action_space == Discrete(2, ("left", "right"))


def test_names_of_actions_that_differ_in_capitals_are_warned_of(tmp_path):
    content = LEFT_RIGHT.replace("left", "RIGHT")
    with pytest.warns(DataWarning, match="only in capital letters.*: 'RIGHT' and 'right'; write"):
        read(put(tmp_path / "a.csv", content))
    rows = np.eye(2)
    parts = [Episodes.from_arrays(rows, lengths=[1], actions=[name]) for name in ("go", "Go")]
    with pytest.warns(DataWarning, match="only in capital letters.*: 'Go' and 'go'"):
        concatenate(parts)


def test_whole_numbers_that_are_stored_as_reals_may_be_choices(tmp_path):
    table = {"episode": [0, 0, 0, 0], "obs_0": [1.0, 2, 4, 3], "action": [0.0, 2, 1, None]}
    parquet.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.warns(DataWarning, match="whole numbers 0 to 2, .*set `action_kind` to 'discrete'"):
        assert isinstance(read(tmp_path / "a.parquet").action_space, Box)
    with pytest.warns(DataWarning, match="3 were assumed"):
        found = read(tmp_path / "a.parquet", action_kind="discrete")
    assert some(found.actions).tolist() == [0, 2, 1]


def test_a_single_1_among_zeros_may_be_a_choice(tmp_path):
    table = {"episode": [0, 0, 0], "obs_0": [1.0, 2, 4], "action": [[0.0, 1], [1.0, 0], None]}
    parquet.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.warns(DataWarning, match="a single 1 among zeros, .*the number of its column"):
        read(tmp_path / "a.parquet")


def test_a_slip_among_numbers_is_not_an_action(tmp_path):
    path = put(tmp_path / "a.csv", "episode,obs_0,action\n0,1,0.5\n0,2,O.5\n0,4,\n")
    with pytest.raises(
        LobsDICEError, match=r"column 'action', row 1 \(line 3\): 'O.5' is not a nu"
    ):
        read(path)


@pytest.mark.parametrize("name", ["a.npz", "a.hdf5", "a.csv", "a.parquet", "a-v0"])
def test_names_of_actions_survive_every_format(name, tmp_path):
    rows = np.arange(8.0).reshape(-1, 2)
    space, texts = Discrete(3, ("up", "left", "down")), ["up", "left", "up"]
    discrete = Episodes.from_arrays(rows, lengths=[3], actions=texts, action_space=space)
    box = Box((-1.0, -2.0), (1.0, 2.0), names=("größe", "u, v"))
    boxed = Episodes.from_arrays(rows, lengths=[3], actions=np.zeros((3, 2)), action_space=box)
    for episodes in (discrete, boxed):
        write(tmp_path / name, episodes)
        found = read_quietly(tmp_path / name)
        assert found.action_space == episodes.action_space
        assert some(found.action_space).names == some(episodes.action_space).names
        np.testing.assert_array_equal(found.actions, episodes.actions)


def read_quietly(path: Path) -> Episodes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return read(path)


def test_files_that_lack_some_actions_are_joined_by_name():
    rows = np.eye(3)
    first = Episodes.from_arrays(rows, lengths=[2], actions=["right", "stop"])
    second = Episodes.from_arrays(rows, lengths=[2], actions=["left", "right"])
    both = concatenate([first, second])
    assert both.action_space == Discrete(3, ("left", "right", "stop"))
    assert some(both.actions).tolist() == [1, 2, 0, 1]


def test_labelled_demonstrations_take_the_numbers_of_the_logs():
    random = np.random.default_rng(0)
    rows = random.normal(size=(3, 4, 2))
    logs = Episodes.from_arrays(rows[0], lengths=[3], actions=["left", "right", "stop"])
    shown = Episodes.from_arrays(rows[1], lengths=[3], actions=["stop", "stop", "right"])
    data = prepare(shown, logs, labelled=shown)
    assert some(data.labelled).a.tolist() == [2, 2, 1]


def test_keywords_that_are_no_options_are_a_sentence(tmp_path):
    with pytest.raises(LobsDICEError, match="did you mean 'episode_column'"):
        read(put(tmp_path / "a.csv", text()), episode_colum="run")


# ---- Names with units ----

UNITS = ("episode", "step", "x [m]", "y [m/s]", "u [%]")


@pytest.mark.parametrize("wanted", [["x [m]", "y [m/s]"], ["x*", "y ?m/s?"], ["x [*", "y [m/s]"]])
def test_brackets_in_names_stand_for_themselves(wanted, tmp_path):
    path = put(tmp_path / "a.csv", text(names=UNITS))
    options: dict[str, Any] = {"action_columns": "u [%]", "action_kind": "continuous"}
    found = read(path, observation_columns=wanted, scale={"x [m]": 100.0}, **options)
    np.testing.assert_array_equal(found.observations[:, 0], [50, 150, 250])
    assert found.observation_names == ("x [m]*100", "y [m/s]")


@pytest.mark.parametrize("name", ["a.npz", "a.hdf5", "a.columns"])
def test_columns_of_arrays_with_names_are_chosen_by_the_same_options(name, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        table = read(put(tmp_path / "a.csv", text(names=UNITS)), observation_columns=["x*", "y*"],
                     action_columns="u*", action_kind="continuous", scale="x*=2")  # fmt: skip
    write(tmp_path / name, table)
    found = read(tmp_path / name, observation_columns=["y [m/s]", "x [m]"])
    assert found.observation_names == ("y [m/s]", "x [m]*2")
    np.testing.assert_array_equal(found.observations, table.observations[:, ::-1])
    assert read(tmp_path / name, observation_columns="y*").state_size == 1
    with pytest.raises(LobsDICEError, match="observation pattern 'z' matches no column"):
        read(tmp_path / name, observation_columns=["z"])


def test_columns_of_actions_in_an_archive_keep_their_bounds_in_another_order(tmp_path):
    box = Box((-1.0, -2.0), (1.0, 2.0), names=("u", "v"))
    whole = Episodes.from_arrays(
        np.eye(3), lengths=[2], actions=[[0.0, 1], [1, 2]], action_space=box
    )
    write(tmp_path / "a.npz", whole)
    found = read(tmp_path / "a.npz", action_columns=["v", "u"])
    assert found.action_space == Box((-2.0, -1.0), (2.0, 1.0))
    np.testing.assert_array_equal(found.actions, [[1, 0], [2, 1]])
    with pytest.raises(LobsDICEError, match="cannot be given with another order"):
        read(tmp_path / "a.npz", action_columns=["v", "u"], action_low=-2, action_high=2)


def test_an_archive_without_names_says_that_none_were_chosen(tmp_path):
    write(tmp_path / "a.npz", Episodes.from_arrays(np.eye(3), lengths=[2]))
    with pytest.warns(DataWarning, match="`observation_columns` was not used"):
        assert read(tmp_path / "a.npz", observation_columns="x").state_size == 3


# ---- Marks in words, rows that are there twice, truth values ----

STATUS = """run,t,x,u,status
a,0,1,0.5,on
a,1,2,0.25,on
a,1,2,0.25,on
a,2,3,0.25,DONE
a,2,3,0.25,DONE
b,0,1,0.5,on
b,1,2,0.5,ALARM
c,0,5,0.5,on
c,1,6,0.5,TIME
"""

RUNS: dict[str, Any] = {
    "episode_column": "run",
    "step_column": "t",
    "observation_columns": "x",
    "action_columns": "u",
    "action_low": -1,
    "action_high": 1,
}
MARKED: dict[str, Any] = {"terminated_column": "status", "terminated_values": ["DONE", "ALARM"]}


@pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")
def test_words_mark_ends_and_success(tmp_path):
    path = put(tmp_path / "a.csv", STATUS)
    success: dict[str, Any] = {"success_column": "status", "success_values": "DONE"}
    found = read(path, **RUNS, **MARKED, **success, last_row_is_final=True)
    assert found.terminated.tolist() == [True, True, False]
    np.testing.assert_array_equal(found.success, [1, 0, 0])
    np.testing.assert_array_equal(found.actions, [[0.5], [0.25], [0.5], [0.5]])


@pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")
def test_a_mark_beside_an_action_needs_the_word_that_the_row_is_final(tmp_path):
    with pytest.warns(DataWarning, match="2 marks of .* in such rows.*set `last_row_is_final`"):
        found = read(put(tmp_path / "a.csv", STATUS), **RUNS, **MARKED)
    assert not found.terminated.any()


def messages(caught) -> list[str]:
    return [str(warning.message) for warning in caught]


@pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")
def test_words_that_no_cell_holds_are_warned_of(tmp_path):
    path = put(tmp_path / "a.csv", STATUS)
    words: dict[str, Any] = {"terminated_column": "status", "terminated_values": ["Done", "ALARM"]}
    with pytest.warns(DataWarning, match="is 'Done'; it holds on, DONE, ALARM, TIME$"):
        read(path, **RUNS, **words, last_row_is_final=True)
    success: dict[str, Any] = {"success_column": "status", "success_values": ["OK", "fine"]}
    with pytest.warns(DataWarning, match="no cell of 'status' is 'OK' or 'fine'; it holds on,"):
        read(path, **RUNS, **success, last_row_is_final=True)


def test_a_word_that_one_of_many_files_holds_is_not_missing(tmp_path):
    head = "t,x,u,status\n"
    put(tmp_path / "a.csv", f"{head}0,1,0.5,on\n1,2,,DONE\n")
    put(tmp_path / "b.csv", f"{head}0,3,0.5,on\n1,4,,ALARM\n")
    options: dict[str, Any] = {**RUNS, "episode_column": None, **MARKED}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read(tmp_path, **options)
        demo, log = str(tmp_path / "a.csv"), str(tmp_path / "b.csv")
        read_both([demo], [log], read_options(DEFAULTS, {**options, "one_episode": True}))
    assert not any("no cell" in said for said in messages(caught))
    typo = read_options(DEFAULTS, {**options, "terminated_values": "END", "one_episode": True})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_both([demo], [log], typo)
    (said,) = [said for said in messages(caught) if "no cell" in said]
    assert said == "no cell of 'status' is 'END'; it holds on, DONE, ALARM"


@pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")
def test_an_episode_without_words_of_success_is_unknown(tmp_path):
    path = put(tmp_path / "a.csv", "run,t,x,u,end\na,0,1,1,\na,1,2,,\nb,0,1,1,\nb,1,3,,NA\n")
    path.write_text(path.read_text() + "c,0,1,1,\nc,1,4,,DONE\nd,0,2,1,\nd,1,4,,TIME\n")
    found = read(path, **RUNS, success_column="end", success_values="DONE")
    np.testing.assert_array_equal(found.success, [-1, -1, 1, 0])


@pytest.mark.parametrize("what", ["terminated", "success"])
def test_words_without_their_column_are_refused(what, tmp_path):
    path = put(tmp_path / "a.csv", STATUS)
    words: dict[str, Any] = {f"{what}_values": ["DONE"]}
    with pytest.raises(LobsDICEError, match=f"names 'DONE', but no .* name it as `{what}_column`"):
        read(path, **RUNS, **words)


def test_an_error_lists_up_to_twenty_columns(tmp_path):
    names = [f"c{i}" for i in range(19)]
    path = put(tmp_path / "a.csv", ",".join(["run", *names]) + "\n" + "0," * 19 + "0\n")
    with pytest.raises(LobsDICEError, match=f"the columns are run, {', '.join(names)}$"):
        read(path, observation_columns="T_*", episode_column="run")


def test_words_without_a_choice_are_listed(tmp_path):
    path = put(tmp_path / "a.csv", STATUS)
    with pytest.raises(LobsDICEError, match="'on', 'DONE', 'ALARM', 'TIME'; name those that count"):
        read(path, **RUNS, terminated_column="status")


@pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")
def test_a_column_of_words_that_may_mark_ends_is_named(tmp_path):
    with pytest.warns(DataWarning, match="'status' may mark ends.*as `terminated_values`"):
        read(put(tmp_path / "a.csv", STATUS), **RUNS, last_row_is_final=True)


@pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")
def test_rows_that_are_there_twice_count_once(tmp_path):
    with pytest.warns(DataWarning, match="2 repeated rows left out"):
        found = read(put(tmp_path / "a.csv", STATUS), **RUNS, last_row_is_final=True)
    assert found.lengths.tolist() == [2, 1, 1]
    np.testing.assert_array_equal(found.observations[:, 0], [1, 2, 3, 1, 2, 5, 6])


def test_a_counter_that_begins_anew_is_warned_of(tmp_path):
    rows = [f"0,{(250 + i) % 256},{i}" for i in range(12)]
    with pytest.warns(DataWarning) as caught:
        read(put(tmp_path / "a.csv", "\n".join(["episode,step,obs_0", *rows])))
    assert any("goes back once in 1 episode, whose rows" in said for said in messages(caught))


def test_rows_of_one_time_that_differ_are_refused(tmp_path):
    path = put(tmp_path / "a.csv", STATUS.replace("a,1,2,0.25,on\na,1,2", "a,1,2,0.25,on\na,1,4"))
    with pytest.raises(LobsDICEError, match=r"row 2 \(line 4\): 1 repeats .* the rows differ"):
        read(path, **RUNS)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_truth_values_as_texts_are_observations(suffix, tmp_path):
    table = {"episode": [0, 0, 0], "obs_0": [1.5, 2, 3], "obs_1": ["TRUE", "FALSE", "TRUE"]}
    path = tmp_path / f"a{suffix}"
    (parquet.write_table if suffix == ".parquet" else csv.write_csv)(pa.table(table), path)
    np.testing.assert_array_equal(read(path).observations, [[1.5, 1], [2, 0], [3, 1]])


BYTES = {
    "episode": [b"a", b"a", b"b", b"b"],
    "obs_0": [1.0, 2, 4, 3],
    "action": [b"go", None, b"stop", None],
    "status": [b"on", b"DONE", b"on", b"TIME"],
}


def test_texts_that_are_stored_as_bytes_are_texts(tmp_path):
    parquet.write_table(pa.table(BYTES), tmp_path / "a.parquet")
    marks: dict[str, Any] = {"terminated_column": "status", "terminated_values": ["DONE"]}
    found = read(tmp_path / "a.parquet", **marks)
    assert found.terminated.tolist() == [True, False] and found.episode_names == ("a", "b")
    assert found.action_space == Discrete(2, ("go", "stop"))


@pytest.mark.parametrize("column", ["episode", "action", "status"])
def test_words_that_are_not_utf_8_are_refused_in_every_column_that_is_read(column, tmp_path):
    row = {"episode": "a", "obs_0": "1", "action": "go", "status": "on"}
    lines = [",".join(row), *(",".join({**row, column: word}.values()) for word in ("zu", "rück"))]
    path = put(tmp_path / "a.csv", "\n".join(lines).encode("cp1252"))
    with pytest.raises(LobsDICEError, match=f"column '{column}': it is not text in UTF-8"):
        read(path, terminated_column="status", terminated_values=["off"])


@pytest.mark.parametrize(
    ("cells", "hint"),
    [(["m", "2"], "; if this row holds units"), (["N", "E"], "; words are no states"),
     (["1 m", "2 m"], "$"), (["2", "m"], "$")],
)  # fmt: skip
def test_words_among_states_get_a_hint(cells, hint, tmp_path):
    content = "episode,obs_0\n" + "".join(f"0,{cell}\n" for cell in cells)
    with pytest.raises(LobsDICEError, match=f"is not a number{hint}"):
        read(put(tmp_path / "a.csv", content))


def test_recordings_that_share_the_name_of_an_episode_get_a_hint(tmp_path):
    clip = ["1,0.5,on", "2,0.25,on", "3,,DONE"]
    rows = [f"a,{t},{cells}" for t, cells in enumerate([*clip, *clip])]
    path = put(tmp_path / "a.csv", "\n".join(["run,t,x,u,status", *rows]))
    with pytest.raises(
        LobsDICEError, match=r"row 2 .*is empty.*recordings share the name of an ep"
    ):
        read(path, **RUNS, **MARKED)
    filled = put(tmp_path / "b.csv", path.read_text().replace("3,,", "3,0,"))
    with pytest.raises(
        LobsDICEError, match=r"row 2 .*: DONE is not valid; a mark of an end .*name"
    ):
        read(filled, **RUNS, **MARKED, last_row_is_final=True)


def test_an_empty_text_among_truth_values_is_no_state(tmp_path):
    table = {"episode": [0, 0, 0], "obs_0": ["true", "", "false"]}
    parquet.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.raises(LobsDICEError, match="column 'obs_0', row 1"):
        read(tmp_path / "a.parquet")


def test_words_beside_numbers_are_no_actions(tmp_path):
    path = put(tmp_path / "a.csv", "episode,x,gear,angle\n0,1,D,0.5\n0,2,R,0.25\n0,3,,\n")
    with pytest.raises(LobsDICEError, match="column 'gear' holds words, such as 'D'; words name"):
        read(path, observation_columns="x", action_columns=["gear", "angle"])


def test_the_numbers_of_a_list_have_names(tmp_path):
    table = {"episode": [0, 0], "state": [[1.0, 2], [3, 4]], "go": [[0.5, 0.25], None]}
    parquet.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.warns(DataWarning, match="no bounds"):
        found = read(tmp_path / "a.parquet", observation_columns="state", action_columns="go")
    assert found.observation_names == ("state_0", "state_1")
    assert some(found.action_space).names == ("go_0", "go_1")


@pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")
def test_files_of_one_name_in_two_folders_are_told_apart(tmp_path):
    for number, name in enumerate(["good/shift.1", "bad"]):
        (tmp_path / name).mkdir(parents=True)
        put(tmp_path / name / "run_1.csv", one_episode(3.0 * number))
    found = read(tmp_path / "**" / "*.csv", **FOLDER)
    assert found.episode_names == ("bad/run_1", "good/shift.1/run_1")
    put(tmp_path / "bad" / "run_1.csv", one_episode(0.0).replace("2.0", "oops"))
    with pytest.raises(LobsDICEError, match=r"bad/run_1\.csv: column 'x'"):
        read(tmp_path / "**" / "*.csv", **FOLDER)
