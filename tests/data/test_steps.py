"""Steps whose observations are stored once: what follows what, in NumPy and in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lobsdice.data.episodes import Episodes
from lobsdice.data.prepare import observations, transitions
from lobsdice.data.steps import Observations, Transitions, join, store

#: Rows 0 1 2 | 3 4 | 5 6 7 8.
EPISODES = Episodes.from_arrays(
    np.arange(9.0)[:, None], lengths=[2, 1, 3], actions=np.arange(6) / 10
)
ROWS = [(0, 1, 2), (1, 2, None), (3, 4, None), (5, 6, 7), (6, 7, 8), (7, 8, None)]


@pytest.mark.parametrize("device", [False, True], ids=["numpy", "jax"])
@pytest.mark.parametrize("every", [1, 2])
def test_next_states_and_those_after_them_never_cross_the_end_of_an_episode(every, device):
    steps = transitions(EPISODES, every=every)
    expected = [ROWS[i] for i in ([0, 2, 3, 5] if every == 2 else range(6))]
    assert steps.size == len(expected)
    steps = jax.tree.map(jnp.asarray, steps) if device else steps
    number = np.arange(len(expected))[::-1]
    taken = steps.take(number)
    later, known = steps.after_next(number)
    found = zip(taken.s[:, 0], taken.s_next[:, 0], later[:, 0], known, strict=True)
    for (s, s_next, s_later, is_known), row in zip(found, expected[::-1], strict=True):
        assert (s, s_next, s_later if is_known else None) == row
        assert is_known or s_later == s_next


def test_each_observation_is_stored_once():
    steps = observations(EPISODES)
    assert steps.observations is EPISODES.observations and steps.row.itemsize == 4


def test_steps_of_several_tables_keep_their_own_successors():
    one, other = transitions(EPISODES), transitions(EPISODES.select([2, 0]))
    both = join([one, other])
    for name in ("s", "a", "s_next"):
        parts = [getattr(part, name) for part in (one, other)]
        np.testing.assert_array_equal(getattr(both, name), np.concatenate(parts))


def test_rows_that_do_not_follow_each_other_are_stored_as_they_are():
    s = np.arange(6, dtype=np.float32).reshape(3, 2)
    a = np.array([2, 0, 1])
    steps = store(Transitions(s, a, s[::-1]))
    for found, expected in zip(steps.take(np.arange(3)), (s, a, s[::-1]), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert not steps.after_next(np.arange(3))[1].any()
    assert store(Observations(s, s)).a is None
