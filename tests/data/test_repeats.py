import numpy as np
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from lobsdice.data.episodes import Episodes
from lobsdice.data.repeats import row_hashes, shared_rows


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.int64, st.integers(2, 40).map(lambda n: (n, 3)), elements=st.integers(0, 1)))
def test_duplicates_are_those_that_occurred_before(states):
    lengths = np.full(len(states), 2)
    episodes = Episodes.from_arrays(states.reshape(-1, 1), lengths=lengths)
    seen, expected = set(), []
    for i, row in enumerate(map(tuple, states.tolist())):
        if row in seen:
            expected.append(i)
        seen.add(row)
    assert episodes.repeated.tolist() == expected


def test_an_episode_of_other_length_or_order_is_no_duplicate():
    observations = [[0.0], [1], [2], [0], [1], [1], [2], [0], [2], [1], [2]]
    assert Episodes.from_arrays(observations, lengths=[2, 3, 3]).repeated.size == 0


def test_hashes_tell_rows_apart_but_not_the_sign_of_zero():
    grid = np.stack(np.meshgrid(*[np.arange(50)] * 3), axis=-1).reshape(-1, 3).astype(np.float32)
    assert len(np.unique(row_hashes(grid))) == len(grid)
    zeros = np.array([[0.0, 1.0], [-0.0, 1.0]], np.float32)
    assert len(np.unique(row_hashes(zeros))) == 1


def test_exactly_the_shared_rows_are_found():
    rng = np.random.default_rng(0)
    theirs, ours = (rng.normal(size=(n, 6)).astype(np.float32) for n in (2000, 500))
    planted = rng.random(500) < 0.3
    ours[planted] = theirs[rng.integers(0, 2000, planted.sum())]
    np.testing.assert_array_equal(shared_rows(ours, np.array_split(theirs, 3)), planted)
