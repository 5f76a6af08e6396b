"""Rewards from optimal transport: which demonstration counts, and what steps cost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import noise_data

from lobsdice.equations.transport import transport_costs
from lobsdice.rewards import transport
from lobsdice.rewards.transport import (
    best_costs,
    groups,
    padded,
    runs,
    score_transport,
    together,
)


def exact_costs(cost):
    """What each row pays after all iterations, in double precision."""
    n, m = cost.shape
    p, q = np.full(n, 1 / n), np.full(m, 1 / m)
    arrays = (jnp.asarray(x, float) for x in (cost, p, q))
    return np.asarray(transport_costs(*arrays, epsilon=0.01, iterations=100, tolerance=0.0))


@pytest.mark.parametrize(
    "count, length",
    [(1, 93), (94, 125), (126, 187), (700, 750), (1000, 1000), (1001, 1500), (1501, 2000)],
)
def test_few_lengths_have_programs_of_their_own(count, length):
    assert padded(count) == length


def test_an_episode_that_is_a_demonstration_costs_nothing_and_picks_it():
    rng = np.random.default_rng(2)
    shown = [x / np.linalg.norm(x, axis=1)[:, None] for x in rng.normal(size=(3, 20, 8))]
    shown = [x.astype(np.float32) for x in shown]
    for demonstrations, alike in [(shown, True), (shown[::2], False)]:
        (found,) = best_costs([shown[1]], together(demonstrations))
        assert (found < 1e-2).all() == alike


def test_episodes_cost_the_same_alone_and_with_others():
    rng = np.random.default_rng(3)
    episodes = [rng.normal(size=(n, 8)).astype(np.float32) for n in (20, 60, 90)]
    shown = together(episodes[:2])
    for one, costs in zip(episodes, best_costs(episodes, shown), strict=True):
        # Those that are done wait for the others, so that only rounding differs.
        np.testing.assert_allclose(costs, best_costs([one], shown)[0], rtol=1e-3, atol=1e-5)


def test_groups_have_every_episode_once_in_programs_of_one_length():
    lengths = [90, 130, 50, 1000, 60, 130, 400, 90]
    ends = np.cumsum(lengths)
    episodes = [slice(int(b) - n, int(b)) for n, b in zip(lengths, ends, strict=True)]
    found = list(groups(episodes, most=200))
    assert sorted((rows for group in found for rows in group), key=lambda x: x.start) == episodes
    for group in found:
        (length,) = {padded(rows.stop - rows.start) for rows in group}
        assert len(group) * length <= 200 or len(group) == 1
    assert [len(group) for group in groups(episodes, most=1)] == [1] * 8


def test_scores_are_costs_of_each_episode_by_its_length_and_the_number_of_features():
    data = noise_data()
    assert data.episode is not None and data.expert_episode is not None
    found = score_transport(data, raw=False)

    def unit(s):
        return s / np.linalg.norm(s, axis=1, keepdims=True)

    demonstrations = [data.expert.s[data.expert_episode == i] for i in range(4)]
    for rows in runs(data.episode, len(data.offline.s)):
        cost = [1 - unit(data.offline.s[rows]) @ unit(e).T for e in demonstrations]
        each = [10 / 3 * exact_costs(c) for c in cost]
        best = max(each, key=lambda c: np.exp(-5 * c).sum())
        np.testing.assert_allclose(found.steps[rows], best, rtol=0.03, atol=3e-3)
    assert (found.beyond == found.steps).all()
    # In the files' units, means and scales matter to cosines.
    assert not np.allclose(found.steps, score_transport(data, raw=True).steps)


def test_many_episodes_at_once_have_the_same_scores_as_single_ones(monkeypatch):
    data, sizes = noise_data(), []
    alone = score_transport(data, raw=True).steps

    def spy(episodes, demonstrations):
        sizes.append(len(episodes))
        return best_costs(episodes, demonstrations)

    monkeypatch.setattr(transport, "best_costs", spy)
    score_transport(data, raw=True)
    count = len(list(runs(data.episode, data.offline.size)))
    assert sizes == [1] * count

    sizes.clear()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    together = score_transport(data, raw=True).steps
    np.testing.assert_allclose(together, alone, rtol=1e-3, atol=1e-5)
    assert sum(sizes) == count and len(sizes) < count
