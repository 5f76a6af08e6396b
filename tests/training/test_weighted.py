"""Rows that are drawn by their weights, which may be averaged along episodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import noise_data

from lobsdice.training.draws import LEARNED, PERIOD, held_out_rows, learned_rows, pack
from lobsdice.training.weighted import DRAWN, averaged, draw_by_weight, stretches


def test_rows_are_drawn_in_proportion_to_their_weights():
    data = noise_data()
    pool, slices = pack([data])
    slices = jax.tree.map(lambda x: x[0], slices)
    scale = 2.0

    def log_weights(rows):
        return scale * rows.s[:, 0]

    drawn = np.asarray(draw_by_weight(jax.random.key(0), pool, slices, log_weights, hold_out=False))
    steps = len(data.offline.s)
    assert drawn.max() < steps  # no row of an end: it has no action to clone
    expected = np.exp(scale * data.offline.s[:, 0])
    expected /= expected.sum()
    found = np.bincount(drawn, minlength=steps) / len(drawn)
    # The error of a sample of 4096, from weights of 32768.
    assert np.abs(found - expected).sum() < 2 * np.sqrt(steps / DRAWN)
    assert np.corrcoef(found, expected)[0, 1] > 0.9


def test_zero_weights_draw_all_rows_alike():
    pool, slices = pack([noise_data()])
    slices = jax.tree.map(lambda x: x[0], slices)

    def none(rows):
        return jnp.full(len(rows.s), -jnp.inf)

    drawn = draw_by_weight(jax.random.key(0), pool, slices, none, hold_out=False)
    counts = np.bincount(np.asarray(drawn), minlength=int(slices.steps[2]))
    assert counts.max() < 3 * counts.mean()


def means_along_episodes(x, episode, stretch):
    """The mean of x over each whole stretch of steps, but only over those of one episode."""
    found = np.zeros(len(x))
    for i in range(len(x)):
        first = i // stretch * stretch
        same = [j for j in range(first, min(first + stretch, len(x))) if episode[j] == episode[i]]
        # Steps of one episode follow each other, so these are all in a row.
        found[i] = np.mean(x[same])
    return found


@pytest.mark.parametrize("stretch", [1, 3, 7, 64])
def test_log_weights_are_averaged_over_the_steps_of_an_episode_in_a_stretch(stretch):
    data = noise_data()
    steps = data.offline.size
    assert steps < PERIOD and data.episode is not None
    x = np.random.default_rng(0).normal(size=steps)
    lines, used = stretches(jnp.arange(steps), jnp.int32(steps), hold_out=True, stretch=stretch)
    row = jnp.asarray(data.offline.row)[lines]
    found = np.asarray(averaged(jnp.asarray(x)[lines], row, used))
    expected = means_along_episodes(x, np.asarray(data.episode), stretch)
    np.testing.assert_allclose(
        found[np.asarray(used)], expected[lines][np.asarray(used)], rtol=1e-4
    )


def test_stretches_use_each_learned_row_once_and_no_held_out_one():
    size = 2 * PERIOD + 100
    first = np.concatenate([start + np.arange(0, LEARNED, 50) for start in (0, PERIOD)])
    first = np.append(first, 2 * PERIOD + np.arange(0, 100, 50))
    lines, used = (
        np.asarray(x)
        for x in stretches(jnp.asarray(first), jnp.int32(size), hold_out=True, stretch=50)
    )
    assert sorted(lines[used]) == sorted(learned_rows(size))
    assert not set(lines.ravel()) & set(held_out_rows(size))
    # Whichever step of a stretch was taken, it is the same stretch.
    other, _ = stretches(jnp.asarray(first + 7), jnp.int32(size), hold_out=True, stretch=50)
    assert (np.asarray(other)[used] == lines[used]).all()


@pytest.mark.parametrize("stretch", [7, 64])
def test_equal_weights_draw_all_rows_alike_in_stretches_too(stretch):
    """Also the rows of the last stretch, which is cut short."""
    pool, slices = pack([noise_data()])
    slices = jax.tree.map(lambda x: x[0], slices)
    steps = int(slices.steps[2])
    assert steps % stretch
    drawn = [
        draw_by_weight(
            jax.random.key(seed),
            pool,
            slices,
            lambda rows: jnp.zeros(len(rows.s)),
            hold_out=False,
            stretch=stretch,
        )
        for seed in range(8)
    ]
    counts = np.bincount(np.concatenate(drawn), minlength=steps)
    mean = 8 * DRAWN / steps
    cut = counts[steps // stretch * stretch :]
    assert counts[: -len(cut)].mean() == pytest.approx(mean, rel=0.05)
    assert cut.mean() == pytest.approx(mean, rel=0.3)


def test_rows_are_drawn_by_the_mean_log_weight_of_their_stretch():
    data = noise_data()
    pool, slices = pack([data])
    slices = jax.tree.map(lambda x: x[0], slices)
    steps = data.offline.size
    log_w = 2.0 * np.asarray(data.offline.s[:, 0])
    drawn = draw_by_weight(
        jax.random.key(0),
        pool,
        slices,
        lambda rows: 2.0 * rows.s[:, 0],
        hold_out=False,
        stretch=4,
        sharpened=lambda x: 1.5 * x,
    )
    expected = np.exp(1.5 * means_along_episodes(log_w, np.asarray(data.episode), 4))
    found = np.bincount(np.asarray(drawn), minlength=steps) / DRAWN
    assert np.corrcoef(found, expected / expected.sum())[0, 1] > 0.9
