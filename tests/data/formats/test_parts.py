"""Files that are read in parts give the episodes that they give as a whole."""

import numpy as np
import pytest

from lobsdice.data.episodes import Episodes, concatenate
from lobsdice.data.formats import DEFAULTS, csv, parquet, parts, read, read_parts, write
from lobsdice.data.formats.mapped import write_parts
from lobsdice.data.spaces import Box
from lobsdice.errors import LobsDICEError


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(parts, "ROWS", 50)
    monkeypatch.setattr(parquet, "BATCH", 12)
    monkeypatch.setattr(csv, "BLOCK", 2048)


def recorded(space: Box | None = None) -> Episodes:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 30, 40)
    steps = int(lengths.sum())
    return Episodes.from_arrays(
        rng.normal(size=(steps + 40, 2)),
        lengths=lengths,
        terminated=rng.random(40) < 0.5,
        actions=rng.uniform(-3, 3, (steps, 2)),
        rewards=rng.normal(size=steps),
        action_space=space,
        source=np.arange(40) % 3,
        source_names=("a", "b", "c"),
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet", "hdf5", "npz"])
def test_parts_are_the_whole(suffix, tmp_path):
    path, folder = tmp_path / f"logs.{suffix}", tmp_path / "logs.columns"
    write(path, recorded(Box((-4.0, -5.0), (4.0, 5.0))))
    found = list(read_parts(path, DEFAULTS))
    assert len(found) > 5 or suffix == "npz"
    write_parts(folder, iter(found))
    mapped, whole = read(folder), read(path)
    for name in ("observations", "lengths", "terminated", "actions", "rewards"):
        np.testing.assert_array_equal(getattr(mapped, name), getattr(whole, name), err_msg=name)
    assert mapped.action_space == whole.action_space
    assert [mapped.called(i) for i in range(40)] == [whole.called(i) for i in range(40)]


def test_bounds_that_no_file_states_are_guessed_from_all_parts(tmp_path):
    whole = recorded()
    pieces = [whole.select(slice(i, i + 10)) for i in range(0, 40, 10)]
    guessed = [
        Episodes.from_arrays(part.observations, lengths=part.lengths, actions=part.actions)
        for part in pieces
    ]
    write_parts(tmp_path / "logs.columns", guessed)
    assert read(tmp_path / "logs.columns").action_space == concatenate(guessed).action_space


def test_rows_of_an_episode_must_lie_together(tmp_path):
    rows = [f"{e},{i},{i}" for i in range(60) for e in (0, 1)]
    (tmp_path / "logs.csv").write_text("\n".join(["episode,step,obs_0", *rows]))
    with pytest.raises(LobsDICEError, match=r"the rows of episode \d do not lie together"):
        list(read_parts(tmp_path / "logs.csv", DEFAULTS))


def converted(folder, pattern: str) -> Episodes:
    """What the files that match a pattern become as a folder of columns."""
    write_parts(folder / "logs.columns", read_parts(folder / pattern, DEFAULTS))
    return read(folder / "logs.columns")


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (("obs_x,obs_y,action", "obs_y,obs_x,action"), "observations in another order .* 'obs_y'"),
        (("obs_x,action_v,action_w", "obs_x,action_w,action_v"), "actions in another order .* '"),
        (("obs_x,obs_y,action", "obs_x,action,reward"), "has observations of 1 numbers, but"),
    ],
)
def test_files_whose_columns_differ_are_not_mixed(headers, message, tmp_path):
    for number, header in enumerate(headers):
        (tmp_path / f"{number}.csv").write_text(f"{header}\n0,1,2\n3,4,5\n")
    with pytest.raises(LobsDICEError, match=message):
        converted(tmp_path, "*.csv")
    assert not (tmp_path / "logs.columns").exists()


def test_files_are_put_together_in_the_order_of_their_numbers(tmp_path):
    for number in (10, 2, 1):
        (tmp_path / f"run_{number}.csv").write_text(f"obs_x\n{number}\n{number}\n")
    np.testing.assert_array_equal(converted(tmp_path, "*.csv").observations[::2, 0], [1, 2, 10])


def test_a_pattern_that_no_file_matches_is_named(tmp_path):
    with pytest.raises(LobsDICEError, match=r"run_\*\.csv: there is no file of a known format"):
        converted(tmp_path, "run_*.csv")


def test_damaged_columns_are_refused_in_a_sentence(tmp_path):
    write(tmp_path / "logs.columns", recorded())
    (tmp_path / "logs.columns" / "observations.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(LobsDICEError, match=r"observations.npy is damaged"):
        read(tmp_path / "logs.columns")
