"""TAILO's discriminator: both losses, the penalty and its settings, against its formulas."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algorithms.transcription import (
    differences,
    flat,
    logistic_objective,
    network,
    penalised,
    plain,
    seven_rows,
    shaken,
    slope,
    slopes,
)
from worlds import noise_data

from lobsdice.algorithms import TAILO
from lobsdice.algorithms.stage import Nets, Stage
from lobsdice.equations.ratio import unlabelled_loss
from lobsdice.rewards.kinds import Ratio


def cross_entropy(logit, label):
    """The mean of -log of the probability that the logit gives to the label."""
    return np.logaddexp(0, -logit if label else logit).mean()


def mixture_loss(expert, offline):
    """p BCE(E,1) + max(0, BCE(I,0) - p BCE(E,0)) with the published p = 0.2."""
    negative = cross_entropy(offline, 0) - 0.2 * cross_entropy(expert, 0)
    return 0.2 * cross_entropy(expert, 1) + max(0.0, negative)


def mixture_objective(net, expert, offline):
    return mixture_loss(*(network(net, x)[:, 0] for x in (expert, offline)))


def penalty(net, expert, offline, u):
    """10 E[(‖∇h(u e + (1-u) i)‖ - 1)²]; h is linear but for kinks, so that long steps do."""
    gradient = slope(lambda x: network(net, x)[:, 0], u * expert + (1 - u) * offline, h=1e-4)
    return 10 * ((np.linalg.norm(gradient, axis=1) - 1) ** 2).mean()


OBJECTIVES = {False: logistic_objective, True: mixture_objective}
each_stage = pytest.mark.parametrize("unlabelled", [True, False], ids=["mixture", "two classes"])


def begin(key, unlabelled, on_pairs=False):
    stage, data = Stage(width=5, unlabelled=unlabelled, on_pairs=on_pairs), noise_data()
    nets = shaken(stage.init(key, data.state_size, data.action_space))
    return stage, nets, *seven_rows(key)


def seen(rows, on_pairs):
    return np.hstack([rows.s, rows.s_next]) if on_pairs else rows.s


@each_stage
@pytest.mark.parametrize("on_pairs", [False, True], ids=["states", "pairs"])
def test_losses_and_gradients_are_those_of_the_formulas(unlabelled, on_pairs, key):
    stage, nets, batch, b = begin(key, unlabelled, on_pairs)
    rows = [seen(part, on_pairs) for part in (b.expert, b.offline)]

    def objective(net):
        return OBJECTIVES[unlabelled](net, *rows)

    found, metrics = slopes(stage, nets, batch, key)
    np.testing.assert_allclose(metrics["ratio_loss"], objective(plain(nets.policy)))
    numeric = differences(objective, plain(nets.policy))
    np.testing.assert_allclose(flat(plain(found.policy)), numeric, rtol=1e-5, atol=1e-8)


def test_where_the_rest_would_be_negative_only_the_experts_share_is_left(key):
    """Rows of the expert with the highest logits and logs with the lowest: 0.2 BCE(E,0) is more."""
    stage, nets, batch, _ = begin(key, unlabelled=True)
    rows = 2 * np.random.default_rng(0).normal(size=(200, 3))
    order = rows[network(plain(nets.policy), rows)[:, 0].argsort()]
    low, high = order[:7], order[-7:]
    at_high, at_low = (network(plain(nets.policy), x)[:, 0] for x in (high, low))
    assert cross_entropy(at_low, 0) < 0.2 * cross_entropy(at_high, 0)
    apart = batch._replace(
        expert=batch.expert._replace(s=jnp.asarray(high)),
        offline=batch.offline._replace(s=jnp.asarray(low)),
    )
    found, metrics = slopes(stage, nets, apart, key)
    np.testing.assert_allclose(metrics["ratio_loss"], 0.2 * cross_entropy(at_high, 1))
    numeric = differences(
        lambda net: 0.2 * cross_entropy(network(net, high)[:, 0], 1), plain(nets.policy)
    )
    np.testing.assert_allclose(flat(plain(found.policy)), numeric, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("shift", [0.0, 4.0], ids=["mixed", "apart"])
def test_the_loss_of_a_mixture_is_that_of_the_formula_on_both_sides_of_zero(shift):
    rng = np.random.default_rng(0)
    expert, offline = shift + rng.normal(size=7), -shift + rng.normal(size=9)
    value, found = jax.value_and_grad(unlabelled_loss, argnums=(0, 1))(
        jnp.asarray(expert), jnp.asarray(offline), 0.2
    )
    np.testing.assert_allclose(value, mixture_loss(expert, offline))
    numeric = differences(lambda net: mixture_loss(*net[0]), ([expert, offline], []))
    np.testing.assert_allclose(np.concatenate(found), numeric, rtol=1e-5, atol=1e-8)
    assert (np.asarray(found[1]) == 0).all() == (shift > 0)


@each_stage
def test_the_penalty_is_on_gradients_of_the_logit_between_the_rows(unlabelled, key):
    stage, nets, batch, b = begin(key, unlabelled)
    u = np.asarray(jax.random.uniform(key, (7, 1)))

    def both(net):
        return OBJECTIVES[unlabelled](net, *rows) + 8 * penalty(net, *rows, u)

    rows = (b.expert.s, b.offline.s)
    expected = penalty(plain(nets.policy), *rows, u)
    np.testing.assert_allclose(penalised(stage, nets, batch, key)["ratio_penalty"], expected)
    whole = jax.jit(jax.grad(partial(stage.loss, penalised=8), has_aux=True))
    found, _ = whole(nets, batch, key)
    numeric = differences(both, plain(nets.policy), h=1e-5)
    np.testing.assert_allclose(flat(plain(found.policy)), numeric, rtol=1e-4, atol=1e-4)


def test_settings_of_the_discriminator_are_the_published_ones():
    assert Stage().rates(jnp.int32(0)) == Nets(3e-4)
    assert TAILO().scored_by == Ratio(pairs=False, unlabelled=True, steps=50_000, width=256)
