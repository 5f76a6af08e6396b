"""The inverse dynamics model: what it learns from, what it learns, and what it says of itself."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algorithms.transcription import seven_rows
from worlds import beginning, noise_data

from lobsdice.algorithms import BCO
from lobsdice.algorithms.inverse import (
    inverse_errors,
    inverse_loss,
    label_expert,
    make_inverse,
)
from lobsdice.algorithms.networks import lacking
from lobsdice.data.normaliser import Normaliser
from lobsdice.data.prepare import Data
from lobsdice.data.spaces import Box
from lobsdice.data.steps import Observations, Transitions, store
from lobsdice.training.draws import held_out_rows
from lobsdice.training.engine import Member, Options
from lobsdice.training.fleet import Fleet, iterate


@pytest.fixture
def setting(key):
    data = noise_data()
    net = make_inverse(key, data.state_size, data.action_space, 5)
    batch, _ = seven_rows(key)
    return net, batch


def test_labelled_demonstrations_enter_their_own_error_and_nothing_else(setting, key):
    net, batch = setting
    errors = inverse_errors(net, batch)
    for name, rows in [("inverse_error", batch.offline), ("inverse_expert_error", batch.labelled)]:
        error = net.error(jnp.concatenate([rows.s, rows.s_next], axis=1), rows.a).mean()
        np.testing.assert_allclose(errors[name], error)
    without = batch._replace(labelled=None)
    assert inverse_errors(net, without) == {"inverse_error": errors["inverse_error"]}
    assert inverse_loss(net, without) == inverse_loss(net, batch)


def test_inferred_actions_are_held_fixed_and_differ_from_draw_to_draw(setting, key):
    net, batch = setting
    slope = jax.grad(lambda net: label_expert(net, batch, key).a.sum())(net)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(slope))
    other = label_expert(net, batch, jax.random.key(1))
    assert (label_expert(net, batch, key).a != other.a).any()


@pytest.mark.parametrize("discrete", [False, True], ids=["box", "finite"])
def test_no_action_is_inferred_after_an_end(discrete, key):
    data = noise_data(discrete=discrete)
    net = make_inverse(key, data.state_size, data.action_space, 5)
    batch, _ = seven_rows(key, discrete=discrete)
    ended = jnp.arange(7) % 3 == 0
    every, some = (label_expert(net, batch._replace(expert_ended=x), key) for x in (None, ended))
    np.testing.assert_array_equal(lacking(some.a), ended)
    np.testing.assert_array_equal(some.a[~ended], every.a[~ended])


class Motion(NamedTuple):
    """s' = s + u + noise, of which tanh u is the recorded action.

    Given s and s', u is Gaussian: the best model is within reach, and its errors are known.
    """

    data: Data
    error: float
    """Mean squared error of the best model's middle, on the rows held out."""
    loss: float
    """-log likelihood of the best model, on the rows learned from."""


def motion(deviation: float, *, spread: float = 0.5, rows: int = 20_000) -> Motion:
    rng = np.random.default_rng(0)
    s = rng.normal(size=(rows, 2))
    u = spread * rng.normal(size=(rows, 2))
    s_next = s + u + deviation * rng.normal(size=(rows, 2))
    share = spread**2 / (spread**2 + deviation**2)
    middle, width = share * (s_next - s), max(np.sqrt(share) * deviation, np.exp(-5))
    out = np.isin(np.arange(rows), held_out_rows(rows))
    log_likelihood = -0.5 * (((u - middle) / width) ** 2 + np.log(2 * np.pi)) - np.log(width)
    log_likelihood -= np.log(1 - np.tanh(u) ** 2)
    s, a, s_next = (x.astype(np.float32) for x in (s, np.tanh(u), s_next))
    data = Data(
        init=s,
        expert=store(Observations(s, s_next)),
        offline=store(Transitions(s, a, s_next)),
        normaliser=Normaliser(np.zeros(2, np.float32), np.ones(2, np.float32)),
        action_space=Box((-1.0, -1.0), (1.0, 1.0)),
        source=np.zeros(rows, np.int64),
        source_names=("offline",),
    )
    error = ((np.tanh(middle) - np.tanh(u))[out] ** 2).mean()
    return Motion(data, error, -log_likelihood[~out].sum(1).mean())


def test_its_error_falls_to_the_noise_that_no_model_can_explain():
    motions = [motion(0.25), motion(0.0)]
    options = Options(steps=1500, batch_size=256, cooldown=1.0)
    algorithm = BCO(width=32, inverse_rate=3e-3)
    members = tuple(Member(algorithm, data=i, options=options) for i in range(2))
    fleet = Fleet(members, tuple(m.data for m in motions))
    *_, last = iterate(fleet, every=300, begin=(0, beginning(fleet)))
    noisy, exact = fleet.diagnosis()(last.state)["inverse_error"]
    np.testing.assert_allclose(noisy, motions[0].error, rtol=0.05)
    np.testing.assert_allclose(last.metrics["inverse_loss"][0], motions[0].loss, atol=0.05)
    assert exact < 1e-3 < motions[0].error / 20
