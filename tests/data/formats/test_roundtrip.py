"""Whatever is written is read back as it was, in every format."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import read, write
from lobsdice.data.spaces import Box, Discrete
from lobsdice.errors import DataWarning

NAMES = [
    *("data.npz", "data.hdf5", "data.csv", "data.tsv", "data.parquet", "data-v0"),
    *("data.robomimic.hdf5", "data.lerobot", "data.lerobot-v2.1", "data.rlds", "data.columns"),
]

PROPERTY = settings(
    max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)

reals = st.floats(width=32, allow_nan=False, allow_infinity=False)


def rows(count, width):
    return hnp.arrays(np.float32, (count, width) if width else count, elements=reals, fill=reals)


@st.composite
def boxes(draw):
    pairs = st.lists(reals, min_size=2, max_size=2, unique=True).map(sorted)
    low, high = zip(*draw(st.lists(pairs, min_size=1, max_size=3)), strict=True)
    return low, high


@st.composite
def actions_in(draw, space, steps):
    if isinstance(space, int):
        return draw(hnp.arrays(np.int64, steps, elements=st.integers(0, space - 1)))
    low, high = np.array(space)
    share = draw(hnp.arrays(np.float64, (steps, len(low)), elements=st.floats(0, 1)))
    return np.clip(low * (1 - share) + high * share, low, high)


@st.composite
def episode_parts(draw):
    """The arguments of `Episodes.from_arrays`; type checks at run time must stay outside."""
    lengths = np.array(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    steps, count = int(lengths.sum()), len(lengths)
    space = draw(st.none() | st.integers(1, 5) | boxes())
    parts = {
        "observations": draw(rows(steps + count, draw(st.integers(1, 3)))),
        "lengths": lengths,
        "terminated": draw(hnp.arrays(bool, count)),
        "actions": None if space is None else draw(actions_in(space, steps)),
        "rewards": draw(st.none() | rows(steps, 0)),
        "action_space": space,
        "success": draw(st.none() | hnp.arrays(np.int64, count, elements=st.integers(-1, 1))),
    }
    if draw(st.booleans()):
        parts["source"] = draw(hnp.arrays(np.int64, count, elements=st.integers(0, 1)))
        parts["source_names"] = ("expert, first", 'ran"dom')
    return parts


def build(parts) -> Episodes:
    space = parts["action_space"]
    if space is not None:
        space = Discrete(space) if isinstance(space, int) else Box.of(*space)
    return Episodes.from_arrays(**(parts | {"action_space": space}))


def assert_same(found: Episodes, wanted: Episodes):
    for field in ("observations", "lengths", "terminated", "actions", "rewards", "success"):
        a, b = getattr(found, field), getattr(wanted, field)
        assert (a is None) == (b is None), field
        if b is not None:
            assert a.dtype == b.dtype, field
            np.testing.assert_array_equal(a, b, err_msg=field)
    assert found.action_space == wanted.action_space
    assert labels_of(found) == labels_of(wanted)


def labels_of(episodes: Episodes):
    """A table keeps the names of the sources in use, not the order of the list of names."""
    return None if episodes.source is None else [episodes.source_names[i] for i in episodes.source]


def read_quietly(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return read(path)


@pytest.mark.parametrize("name", NAMES)
@PROPERTY
@given(parts=episode_parts())
def test_what_is_written_is_read_back_equal(name, parts):
    episodes = build(parts)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path, episodes)
        assert_same(read_quietly(path), episodes)
        assert [p.name for p in Path(folder).iterdir()] == [name]


@pytest.mark.parametrize("name", NAMES)
def test_writing_replaces_what_was_there(name, tmp_path):
    for size in (2, 3):
        episodes = Episodes.from_arrays(np.arange(12).reshape(-1, size), lengths=[12 // size - 1])
        write(tmp_path / name, episodes)
    assert_same(read_quietly(tmp_path / name), episodes)


@pytest.mark.parametrize("name", [name for name in NAMES if name[-2:] not in ("sv", "et")])
def test_names_of_observations_survive(name, tmp_path):
    names = ("joint 1", "größe")
    rows = np.arange(12).reshape(-1, 2)
    write(tmp_path / name, Episodes.from_arrays(rows, lengths=[5], observation_names=names))
    assert read(tmp_path / name).observation_names == names


@pytest.mark.parametrize("name", NAMES)
def test_many_rows_survive(name, tmp_path):
    rng = np.random.default_rng(0)
    lengths = [1, 20_000, 1, 1, 17_000, 2]
    episodes = Episodes.from_arrays(
        rng.normal(size=(sum(lengths) + 6, 3)),
        lengths=lengths,
        terminated=[True, False, False, True, True, False],
        actions=rng.uniform(-1, 1, (sum(lengths), 2)),
        rewards=rng.normal(size=sum(lengths)),
    )
    write(tmp_path / name, episodes)
    assert_same(read(tmp_path / name), episodes)
