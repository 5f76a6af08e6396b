"""Bad input, and the one sentence that says what is wrong."""

import json
import pickle
import re
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from lobsdice.data.formats import ReadOptions, read, write
from lobsdice.errors import DataWarning, LobsDICEError

OURS = {
    "observations": np.arange(14.0).reshape(7, 2) ** 2,
    "episode_lengths": np.array([2, 3]),
    "terminated": np.array([True, False]),
    "actions": np.linspace(-1, 1, 5)[:, None],
    "rewards": np.arange(5.0),
}
FLAT = {
    "observations": np.arange(8.0).reshape(4, 2) ** 2,
    "next_observations": np.arange(2.0, 10.0).reshape(4, 2) ** 2,
    "actions": np.linspace(-1, 1, 4)[:, None],
    "terminals": np.array([False, False, False, True]),
    "timeouts": np.zeros(4, bool),
}
TABLE = {
    "episode": [0, 0, 0, 1, 1],
    "obs_0": [0.5, 1.0, 2.0, 3.0, 5.0],
    "action_0": [0.5, -0.75, None, 1.0, None],
}


def set_at(array, row, value):
    changed = np.array(array, copy=True)
    changed[row] = value
    return changed


def npz(base, **changes):
    """An archive with some keys changed, or left out where the change is None."""

    def make(folder: Path) -> Path:
        arrays = {k: v for k, v in (base | changes).items() if v is not None}
        np.savez(folder / "bad.npz", **arrays)
        return folder / "bad.npz"

    return make


def hdf5(**changes):
    def make(folder: Path) -> Path:
        with h5py.File(folder / "bad.hdf5", "w") as file:
            for key, value in (FLAT | changes).items():
                if value is not None:
                    file[key] = value
        return folder / "bad.hdf5"

    return make


def table(suffix, **changes):
    def make(folder: Path) -> Path:
        columns = {k: v for k, v in (TABLE | changes).items() if v is not None}
        path = folder / f"bad{suffix}"
        if suffix == ".parquet":
            parquet.write_table(pa.table(columns), path)
        else:
            lines = zip(*columns.values(), strict=True)
            cells = [",".join("" if c is None else str(c) for c in line) for line in lines]
            path.write_text("\n".join([",".join(columns), *cells]) + "\n")
        return path

    return make


def raw(name, content: bytes):
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def cut(make, share=0.5):
    """The first part of a good file."""

    def shortened(folder: Path) -> Path:
        path = make(folder)
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * share)])
        return path

    return shortened


def folder_with(name=None, content=""):
    def make(folder: Path) -> Path:
        (folder / "bad").mkdir()
        if name is not None:
            (folder / "bad" / name).write_text(content)
        return folder / "bad"

    return make


def zip_bomb_header(folder: Path) -> Path:
    """An archive whose array claims far more numbers than memory can hold."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000, 4), }"
    header = header.ljust(117) + b"\n"
    with zipfile.ZipFile(folder / "bad.npz", "w") as archive:
        archive.writestr("terminals.npy", b"")
        archive.writestr("observations.npy", b"\x93NUMPY\x01\x00\x76\x00" + header + bytes(64))
    return folder / "bad.npz"


def huge_hdf5(folder: Path) -> Path:
    with h5py.File(folder / "bad.hdf5", "w") as file:
        file.create_dataset("observations", (10**10, 4), np.float32, chunks=(1000, 4))
        file["terminals"] = np.zeros(4, bool)
    return folder / "bad.hdf5"


def missing(folder: Path) -> Path:
    return folder / "bad.npz"


BAD = {
    # Not there, not known, not whole.
    "nonexistent path": (missing, "there is no such file or folder"),
    "empty file": (raw("bad.npz", b""), "the file is empty"),
    "unknown format": (
        raw("bad.xyz", b"hello"),
        "the format is unknown; names of known files end in .npz",
    ),
    "a table of Excel": (raw("bad.xlsx", b"PK\3\4"), "the format is unknown; names of known"),
    "a pickle": (raw("bad.pkl", b"hello"), "what Python can read becomes episodes with ld.Epis"),
    "UTF-16": (raw("bad.csv", "episode,obs_0\n0,1\n".encode("utf-16")), "is not text in UTF-8"),
    "blanks between columns": (
        raw("bad.csv", b"episode obs_0\n0 1\n0 2\n"),
        "no column tells the episodes apart; there is only the column 'episode obs_0'; if another "
        "sign than a comma separates columns, state it as `separator`",
    ),
    "text named npz": (raw("bad.npz", b"hello"), "it cannot be read and may be damaged"),
    "text named hdf5": (raw("bad.hdf5", b"hello"), "it cannot be read and may be damaged"),
    "text named parquet": (raw("bad.parquet", b"hello"), "it cannot be read and may be damaged"),
    "half an npz": (cut(npz(OURS)), "it cannot be read and may be damaged"),
    "half an HDF5 file": (cut(hdf5()), "it cannot be read and may be damaged"),
    "half a Parquet file": (cut(table(".parquet")), "it cannot be read and may be damaged"),
    "bytes named csv": (raw("bad.csv", bytes(range(256))), ""),
    "absurd npz header": (zip_bomb_header, "observations claims to have 32,000,000,000,000,000"),
    "absurd HDF5 size": (huge_hdf5, "observations claims to have 160,000,000,000 bytes"),
    "folder that is no dataset": (
        folder_with(),
        "the folder holds no dataset and no file",
    ),
    "Minari folder without spaces": (
        folder_with("metadata.json", json.dumps({"total_episodes": 1, "data_format": "hdf5"})),
        "metadata.json: there is no key 'observation_space'",
    ),
    "Minari folder of no JSON": (
        folder_with("metadata.json", "{"),
        "metadata.json: it is not valid JSON",
    ),
    # Keys.
    "no observations": (npz(OURS, observations=None), "there is no 'observations'"),
    "no terminated": (npz(OURS, terminated=None), "there is no 'terminated'"),
    "neither lengths nor flags": (
        npz(OURS, episode_lengths=None, terminated=None),
        "there is no 'terminals'",
    ),
    "HDF5 without observations": (
        hdf5(observations=None),
        "; what h5py or NumPy can read becomes episodes with ld.Episodes.from_episodes",
    ),
    "HDF5 without terminals": (hdf5(terminals=None), "there is no 'terminals'"),
    "archive of nothing": (npz({}), "there is no 'observations'; the file has no keys"),
    "a low without a high": (
        npz(OURS, action_low=np.array([-1.0])),
        "the file has action_low; it must have either",
    ),
    # Types.
    "object array": (
        npz(OURS, observations=np.array([{}], object)),
        "observations holds Python objects, which are never loaded",
    ),
    "texts for numbers": (
        npz(OURS, rewards=np.array(list("abcde"))),
        "rewards must be numbers, not <U1",
    ),
    "texts for numbers in HDF5": (
        hdf5(rewards=["a"] * 4),
        "rewards must be numbers, not texts of any size",
    ),
    "texts of any size in HDF5": (
        hdf5(**{"metadata/observation_names": ["hip"]}),
        "observation_names must be texts of fixed size (dtype S), not texts of any size",
    ),
    "images": (
        npz(OURS, observations=np.zeros((7, 8, 8))),
        "observations has the shape (7, 8, 8); it must have 2 dimensions",
    ),
    "images in HDF5": (
        hdf5(observations=np.zeros((4, 8, 8))),
        "observations has the shape (4, 8, 8)",
    ),
    "a flag of 2": (
        hdf5(terminals=np.array([0, 0, 2, 1])),
        "terminals, row 2: 2 is neither 0 nor 1",
    ),
    "integers of two columns": (
        npz(OURS, actions=np.ones((5, 2), int)),
        "actions holds integers of shape (5, 2)",
    ),
    "integers within bounds of floats": (
        npz(OURS, actions=np.ones(5, int), action_low=[-2.0], action_high=[2.0]),
        "actions holds integers, but has bounds, as only real numbers do",
    ),
    "fractions of discrete actions": (
        npz(OURS, actions=np.array([0, 1, 1.5, 0, 0]), action_count=2),
        "actions, row 2: [1.5] is not a whole number",
    ),
    # Numbers.
    "NaN": (
        npz(OURS, observations=set_at(OURS["observations"], (3, 1), np.nan)),
        "observations, row 3, column 1: nan is not a finite",
    ),
    "infinity": (
        npz(OURS, rewards=set_at(OURS["rewards"], 4, -np.inf)),
        "rewards, row 4, column 0: -inf is not a finite",
    ),
    "too large for float32": (
        npz(OURS, observations=set_at(OURS["observations"], (0, 0), 1e60)),
        "observations, row 0, column 0: inf is not a finite float32",
    ),
    "NaN in HDF5": (
        hdf5(observations=set_at(FLAT["observations"], (2, 0), np.nan)),
        "observations, row 2, column 0: nan is not a finite",
    ),
    "NaN in next observations": (
        hdf5(next_observations=set_at(FLAT["next_observations"], (3, 0), np.nan)),
        "next_observations, row 3, column 0: nan is not a finite",
    ),
    "NaN in actions": (
        hdf5(actions=set_at(FLAT["actions"], 1, np.nan)),
        "actions, row 1, column 0: nan is not a finite",
    ),
    "NaN without next observations": (
        hdf5(next_observations=None, rewards=np.array([0, np.nan, 0, 0])),
        "rewards, row 1, column 0: nan is not a finite",
    ),
    "action outside its bounds": (
        npz(OURS, action_low=[-0.7], action_high=[1.0]),
        "actions, row 0: [-1.0] is outside Box(low=(-0.7,), high=(1.0,))",
    ),
    "discrete action outside": (
        npz(OURS, actions=np.array([0, 1, 2, 3, 0]), action_count=3),
        "actions, row 3: 3 is outside Discrete(n=3)",
    ),
    "negative discrete action": (
        npz(OURS, actions=np.array([0, 1, -2, 3, 0])),
        "actions, row 2: -2 is outside Discrete(n=4); discrete actions count from 0: write choices",
    ),
    "bounds of no width": (
        npz(OURS, action_low=[1.0], action_high=[1.0]),
        "action bounds must be finite float32 numbers with low < high",
    ),
    # Sizes.
    "zero episodes": (
        npz(OURS, episode_lengths=np.empty(0, int), terminated=np.empty(0, bool)),
        "there are no episodes",
    ),
    "no rows": (
        npz(FLAT, **{key: value[:0] for key, value in FLAT.items()}),
        "observations is empty",
    ),
    "an episode of no steps": (
        npz(OURS, episode_lengths=np.array([0, 5])),
        "episode_lengths, row 0: 0 steps, but an episode has at least 1",
    ),
    "lengths that disagree": (
        npz(OURS, episode_lengths=np.array([2, 4])),
        "observations has 7 rows, but the 2 episodes in episode_lengths need 8",
    ),
    "lengths that are no numbers of steps": (
        npz(OURS, episode_lengths=np.array([2.5, 2.5])),
        "episode_lengths must be whole numbers",
    ),
    "too few actions": (
        npz(OURS, actions=OURS["actions"][:4]),
        "actions has 4 rows, but the 2 episodes in episode_lengths need 5",
    ),
    "too few rows in HDF5": (
        hdf5(actions=FLAT["actions"][:3]),
        "actions has 3 rows, but observations has 4",
    ),
    "narrow next observations": (
        hdf5(next_observations=FLAT["next_observations"][:, :1]),
        "next_observations and observations must have equally many columns, not 1 and 2",
    ),
    "bounds of another width": (
        npz(OURS, action_low=[-1.0, -1], action_high=[1.0, 1]),
        "actions has 1 column, but its bounds have 2",
    ),
    "nothing but one-row episodes": (
        hdf5(next_observations=None, terminals=np.ones(4, bool)),
        "no transition is left",
    ),
    "a source without a name": (
        npz(OURS, source=np.array([0, 1]), source_names=np.array(["a"])),
        "source, row 1: there is no source 1, because source_names has 1 name",
    ),
    # Tables.
    "CSV without an episode column": (
        table(".csv", episode=None),
        "no column tells the episodes apart",
    ),
    "Parquet without an episode column": (
        table(".parquet", episode=None),
        "no column tells the episodes apart; choose one with `episode_column`: obs_0, action_0",
    ),
    "CSV without observations": (
        table(".csv", obs_0=None),
        "no column is named like an observation",
    ),
    "CSV with a header only": (
        raw("bad.csv", b"episode,obs_0,action_0\n"),
        "there are no episodes: the table has no rows",
    ),
    "text in a column of numbers": (
        table(".csv", obs_0=[0, 1, "one", 2, 3]),
        "column 'obs_0', row 2 (line 4): 'one' is not a number",
    ),
    "text in a column of actions": (
        table(".csv", action_0=[0, "left", None, 2, None]),
        "column 'action_0', row 1 (line 3): 'left' is not a number",
    ),
    "text in a Parquet column": (
        table(".parquet", obs_0=list("12x45")),
        "column 'obs_0', row 2: 'x' is not a number",
    ),
    "empty cell": (
        table(".csv", obs_0=[0, 1, None, 2, None]),
        "column 'obs_0', row 2 (line 4): the cell is empty (2 such cells in the column); remove",
    ),
    "empty episode": (
        table(".csv", episode=[0, 0, None, 1, 1]),
        "column 'episode', row 2 (line 4): the cell is empty",
    ),
    "action missing inside an episode": (
        table(".parquet", action_0=[0.5, None, None, 1, None]),
        "column 'action_0', row 1: the cell is empty",
    ),
    "NaN in CSV": (
        table(".csv", obs_0=[0, 1, 2, "nan", 3]),
        "column 'obs_0', row 3 (line 5): nan is not a finite",
    ),
    "the same step twice": (
        table(".csv", step=[0, 1, 1, 0, 1]),
        "column 'step', row 2 (line 4): 1 repeats the step of row 1 (line 3) of the same episode",
    ),
    "termination in the middle": (
        table(".csv", terminated=[1, 0, 0, 0, 1]),
        "column 'terminated', row 0 (line 2): 1 is not valid; a mark of an end stands in the ",
    ),
    "codes in place of marks": (
        table(".csv", terminated=[0, 0, 2, 0, 1]),
        "2 is not valid; cells hold 0, or 1 in the last two rows of an episode; if they are codes",
    ),
    "a clock that is too coarse": (
        table(".csv", step=[0, 0, 0, 0, 1]),
        "of the same episode, and the rows differ; many rows do, as if the clock were too coarse",
    ),
    "a success that is neither true nor false": (
        npz(OURS, success=np.array([1, 7])),
        "success, row 1: 7 is neither 0 nor 1",
    ),
    "only one row an episode": (table(".csv", episode=[0, 1, 2, 3, 4]), "no transition"),
    "a column twice": (
        raw("bad.csv", b"episode,obs_0,obs_0\n0,1,2\n0,1,3\n"),
        "there is more than one column 'obs_0'",
    ),
    "rows of unequal length": (raw("bad.csv", b"episode,obs_0\n0,1\n0\n"), "cannot be read"),
    "lists of unequal length": (
        table(".parquet", obs_0=[[1.0, 2], [1.0, 2], [1.0], [1.0, 2], [1.0, 2]]),
        "column 'obs_0', row 2: the list has 1 number, but others have 2",
    ),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")
def test_bad_input_is_one_sentence_that_names_the_file(case, tmp_path):
    make, message = BAD[case]
    path = make(tmp_path)
    with pytest.raises(LobsDICEError) as caught:
        read(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert message in text
    assert "\n" not in text


OPTIONS = {
    "pattern that matches nothing": (
        ReadOptions(observation_columns=("pos_*",)),
        "pattern 'pos_*' matches no column; the columns are episode, obs_0, action_0",
    ),
    "action pattern that matches nothing": (
        ReadOptions(action_columns=("force",)),
        "the action pattern 'force' matches no column",
    ),
    "an observation that is the action": (
        ReadOptions(observation_columns=("obs_0", "action_*")),
        "column 'action_0' is both an observation and the action",
    ),
    "an observation that numbers the episodes": (
        ReadOptions(observation_columns=("episode", "obs_0")),
        "column 'episode' is both an observation and the episode",
    ),
    "success that is neither true nor false": (
        ReadOptions(success_column="obs_0"),
        "column 'obs_0', row 0: 0.5 is neither 0 nor 1",
    ),
    "unknown episode column": (ReadOptions(episode_column="run"), "there is no column 'run'"),
    "bounds that are too narrow": (
        ReadOptions(action_low=(-1.0,), action_high=(0.75,)),
        "actions, row 3: [1.0] is outside Box",
    ),
    "too many bounds": (
        ReadOptions(action_low=(0.0, 0.0), action_high=(2.0, 2.0)),
        "actions has 1 column, but its bounds have 2",
    ),
    "reals read as whole numbers": (
        ReadOptions(action_kind="discrete"),
        "actions, row 0: [0.5] is not a whole number, as discrete actions must be",
    ),
}


@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_options_that_do_not_fit_are_one_sentence(case, suffix, tmp_path):
    options, message = OPTIONS[case]
    path = table(suffix)(tmp_path)
    with pytest.raises(LobsDICEError) as caught:
        read(path, options)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in re.sub(r" \(line \d+\)", "", str(caught.value))


def test_options_are_checked_when_they_are_made():
    with pytest.raises(
        LobsDICEError, match="`action_low` and `action_high` must be given together"
    ):
        ReadOptions(action_low=(1.0,))
    with pytest.raises(LobsDICEError, match="`action_count` is for discrete actions"):
        ReadOptions(action_low=(1.0,), action_high=(2.0,), action_count=3)
    with pytest.raises(LobsDICEError, match="`max_gap` is -1; it must be more than 0"):
        ReadOptions(max_gap=-1.0)
    with pytest.raises(LobsDICEError, match="`time_limit` is 0"):
        ReadOptions(time_limit=0)


class Trap:
    """A hostile pickle, which runs code when it is loaded."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("name", ["bad.npz", "bad.hdf5", "bad.pkl", "bad.csv", "bad.parquet"])
def test_a_pickle_is_never_loaded(name, tmp_path):
    sprung = tmp_path / "sprung"
    (tmp_path / name).write_bytes(pickle.dumps(Trap(sprung)))
    with pytest.raises(LobsDICEError):
        read(tmp_path / name)
    assert not sprung.exists()


def test_an_object_array_is_never_loaded(tmp_path):
    sprung = tmp_path / "sprung"
    array = np.array([Trap(sprung)] * 7, object)
    path = npz(OURS, observations=array)(tmp_path)
    with pytest.raises(LobsDICEError, match="Python objects"):
        read(path)
    assert not sprung.exists()


WORTH_A_LOOK = {
    "a constant feature": (
        npz(OURS, observations=OURS["observations"] * [1, 0]),
        "observations are constant in column 1",
    ),
    "duplicate episodes": (
        npz(
            OURS,
            observations=np.tile(np.arange(6.0).reshape(3, 2), (2, 1)),
            episode_lengths=np.array([2, 2]),
            actions=OURS["actions"][:4],
            rewards=None,
        ),
        "episode 1 repeats an earlier one",
    ),
    "bounds taken from the data": (
        npz(OURS, actions=OURS["actions"] * 2),
        "the file has no bounds of the actions; its smallest and largest actions were taken: "
        "low [-2], high [2]",
    ),
    "a number of actions taken from the data": (
        npz(OURS, actions=np.array([0, 1, 2, 1, 0])),
        "the file does not say how many actions there are; 3 were assumed",
    ),
    "actions that use little of the bounds taken for granted": (
        npz(OURS, actions=(OURS["actions"] + 1) * 1e-6),
        "-1 and 1 were assumed, but the actions of column 0 lie in [0, 2e-06]",
    ),
    "actions that count from 1": (
        npz(OURS, actions=np.array([1, 2, 3, 2, 1])),
        "4 were assumed, from the largest action in it; actions count from 0, but 0 never occurs",
    ),
    "an unmarked end": (
        hdf5(next_observations=set_at(FLAT["next_observations"], 1, -1.0)),
        "1 unmarked episode end found",
    ),
    "no next observations": (
        hdf5(next_observations=None, timeouts=np.array([1, 0, 0, 0], bool)),
        "2 transitions dropped, and 1 episode of one row with them",
    ),
    "an action without a result": (
        table(".csv", action_0=[0.5, -0.75, 0.1, 1.0, None]),
        "the last row of 1 episode holds an action whose result is not in the file",
    ),
    "rows that nothing orders": (
        table(".csv", episode=[0, 1, 0, 1, 0], action_0=[0.5, -0.75, 0.1, None, None]),
        "the rows of 2 episodes are not consecutive, and no `step_column` orders them",
    ),
    "marks of ends that were not read": (
        table(".csv", terminated=None, done=[0, 0, 1, 0, 1], is_terminal=[0, 0, 0, 0, 1]),
        "every episode counts as truncated, although 'done' and 'is_terminal' may mark ends; if "
        "one is true only where the task ended, name it as `terminated_column`",
    ),
    "a column of success with other values": (
        table(".parquet", terminated=[0] * 5, success=["yes", "yes", "yes", "no", "no"]),
        "whether episodes succeeded was not read: column 'success' holds words: 'yes', 'no'",
    ),
    "success of another length": (
        npz(FLAT, success=np.ones(3)),
        "whether episodes succeeded was not read: success has 3 rows; it must have one for each",
    ),
    "an episode of one row": (
        table(".csv", episode=[0, 0, 0, 1, 2]),
        "2 episodes of one row dropped",
    ),
}


@pytest.mark.parametrize("case", WORTH_A_LOOK)
def test_what_is_worth_a_look_is_a_warning_that_names_the_file(case, tmp_path):
    make, message = WORTH_A_LOOK[case]
    path = make(tmp_path)
    with pytest.warns(DataWarning) as caught:
        read(path)
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 1
    assert texts[0].startswith(f"{path}: ") and message in texts[0]


@pytest.mark.parametrize("make", [npz(OURS), npz(FLAT), hdf5(), table(".csv"), table(".parquet")])
def test_the_unchanged_inputs_of_these_tables_are_good(make, tmp_path):
    assert read(make(tmp_path)).steps > 0


def test_minari_missing_is_one_sentence(tmp_path, monkeypatch, episodes):
    write(tmp_path / "data-v0", episodes)
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(LobsDICEError, match=r"pip install 'lobsdice\[minari\]'"):
        read(tmp_path / "data-v0")


def test_an_unknown_suffix_is_not_written(tmp_path, episodes):
    with pytest.raises(LobsDICEError, match="no format has the suffix"):
        write(tmp_path / "data.xyz", episodes)
    assert not list(tmp_path.iterdir())
