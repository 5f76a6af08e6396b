"""Distances to demonstrated pairs, against brute force in float64."""

from dataclasses import replace

import numpy as np
import pytest
from worlds import noise_data

from lobsdice.data.normaliser import Normaliser
from lobsdice.rewards.nearest import distances, score_nearest


def brute(queries, points):
    x, y = queries.astype(np.float64), points.astype(np.float64)
    return np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1)).min(axis=1)


def test_distances_are_exact_even_for_rows_that_nearly_repeat_far_from_the_origin():
    rng = np.random.default_rng(0)
    points = (1000 + rng.normal(size=(300, 34))).astype(np.float32)
    near = points[rng.integers(0, 300, 200)] + rng.normal(size=(200, 34)) * 1e-3
    crowd = near[:50] + rng.normal(size=(50, 34)) * 1e-3  # several points at nearly one distance
    queries = np.concatenate([near, points[:20], 1000 + rng.normal(size=(200, 34))])
    queries, points = queries.astype(np.float32), np.concatenate([points, crowd]).astype(np.float32)
    np.testing.assert_allclose(distances(queries, points), brute(queries, points), rtol=2e-3)
    assert (distances(points[:20], points) == 0).all()


@pytest.mark.parametrize("raw", [False, True])
def test_scores_of_steps_ends_and_the_unit_are_those_of_brute_force(raw):
    scale = np.array([1, 10, 0.1], np.float32)
    data = replace(noise_data(ended=0.5), normaliser=Normaliser(np.ones(3, np.float32), scale))
    by = scale if raw else 1

    def pairs(s, s_next):
        return np.concatenate([s * by, s_next * by], axis=1)

    assert data.ends is not None and data.ended is not None and data.expert_episode is not None
    shown = pairs(data.expert.s, data.expert.s_next)
    found = score_nearest(data, raw=raw)
    steps = brute(pairs(data.offline.s, data.offline.s_next), shown)
    np.testing.assert_allclose(found.steps, steps, rtol=1e-5)

    finals = np.concatenate([shown, pairs(data.ends.expert, data.ends.expert)])
    beyond = np.where(data.ended, np.nan, steps)
    beyond[data.ended] = brute(pairs(data.ends.offline, data.ends.offline), finals)
    np.testing.assert_allclose(found.beyond, beyond, rtol=1e-5)

    episode = data.expert_episode
    others = [brute(shown[[i]], shown[episode != episode[i]])[0] for i in range(len(shown))]
    np.testing.assert_allclose(found.unit, np.median(others), rtol=1e-5)


def test_the_unit_of_a_single_demonstration_is_the_distance_within_it():
    data = replace(noise_data(), expert_episode=None)
    shown = data.expert.pairs
    others = [brute(shown[[i]], np.delete(shown, i, 0))[0] for i in range(len(shown))]
    np.testing.assert_allclose(score_nearest(data, raw=False).unit, np.median(others), rtol=1e-5)
