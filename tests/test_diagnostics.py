"""What can be said of a run without its environment: weights, and measures on held-out rows."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algorithms.transcription import seven_rows
from worlds import noise, noise_data

from lobsdice import diagnostics
from lobsdice.algorithms import BC, SMODICE, DemoDICE, DemoDICEfO, LobsDICE, LobsDICEMu
from lobsdice.algorithms.base import Labelled
from lobsdice.data import prepare
from lobsdice.diagnostics import episode_weights, row_weights, shares
from lobsdice.errors import LobsDICEError

SIZE: Any = {"width": 5}
WEIGHING = [
    LobsDICE(**SIZE),
    LobsDICEMu(**SIZE),
    LobsDICEMu(state_matching=True, **SIZE),
    SMODICE(**SIZE),
    SMODICE(chi2=True, **SIZE),
    DemoDICE(**SIZE),
    DemoDICEfO(**SIZE),
]
each_weighing = pytest.mark.parametrize(
    "algorithm", WEIGHING, ids=[f"{type(a).__name__}{i}" for i, a in enumerate(WEIGHING)]
)


def started(algorithm, key, data=None):
    data = data or noise_data()
    return algorithm.init(key, data.state_size, data.action_space)


@each_weighing
def test_weights_are_those_under_which_the_policy_clones(algorithm, key):
    nets, (batch, _) = started(algorithm, key), seven_rows(key)
    loss = algorithm.loss(nets, batch, key, penalised=False)[1]["policy_loss"]
    log_w = algorithm.log_weights(nets, batch)
    w = np.exp(log_w - log_w.max())
    log_prob = np.asarray(nets.policy.log_prob(batch.s, batch.a))
    np.testing.assert_allclose(loss, -(w * log_prob).sum() / w.sum(), rtol=1e-6)


def test_row_weights_are_shares_whatever_the_size_of_the_pieces(key, monkeypatch):
    algorithm, data = LobsDICE(**SIZE), noise_data()
    nets = started(algorithm, key)
    whole = row_weights(algorithm, nets, data)
    monkeypatch.setattr(diagnostics, "ROWS_AT_ONCE", 30)  # 80 rows are no multiple of it
    np.testing.assert_allclose(row_weights(algorithm, nets, data), whole, rtol=1e-5)
    assert whole.shape == (80,) and whole.sum() == pytest.approx(1)
    rows = [jnp.asarray(x) for x in data.offline]
    log_w = algorithm.log_weights(nets, Labelled(*rows))
    np.testing.assert_allclose(np.log(whole), log_w - jax.nn.logsumexp(log_w), rtol=1e-5)


def test_where_no_weight_is_left_all_shares_are_zero(key):
    algorithm, data = SMODICE(chi2=True, gamma=0.0, **SIZE), noise_data()
    nets = started(algorithm, key)
    # No state looks like the expert's, and ν is zero: e = r < -1 everywhere.
    nets = jax.tree.map(jnp.zeros_like, nets)._replace(r=lambda rows: jnp.full(len(rows), -5.0))
    log_w = algorithm.log_weights(nets, Labelled(*map(jnp.asarray, data.offline)))
    assert (log_w == -jnp.inf).all()
    np.testing.assert_array_equal(shares(np.asarray(log_w, np.float64)), 0)


@pytest.mark.parametrize("terminal", ["keep", "absorbing", "restart", "drop"])
def test_an_episode_weighs_what_its_rows_weigh(terminal, key):
    offline = noise(80)
    data = prepare(noise(40, seed=1), offline, terminal=terminal)
    weights = np.arange(1.0, len(data.offline.s) + 1)
    ended = offline.terminated.astype(int)
    # Ten steps each; `drop` leaves a terminal one out, `absorbing` adds one row at the end.
    lengths = 10 - (ended if terminal == "drop" else 0)
    ends = np.cumsum(lengths * np.ones(8, int))
    expected = np.array([w.sum() for w in np.split(weights, ends)[:8]])
    if terminal == "absorbing":
        expected[ended == 1] += weights[80:]
    np.testing.assert_array_equal(episode_weights(weights, data, len(offline)), expected)


def test_what_has_no_weights_or_no_episodes_says_so(key):
    with pytest.raises(LobsDICEError, match="BC does not weigh the offline data"):
        row_weights(BC(**SIZE), started(BC(**SIZE), key), noise_data())
    with pytest.raises(LobsDICEError, match="does not say which episode"):
        episode_weights(np.ones(80), replace(noise_data(), episode=None), 8)
