"""OptiDICE: its identity with LobsDICE, a problem with a known answer, and rewards at ends."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algorithms.transcription import seven_rows, shaken
from worlds import beginning, noise_data

from lobsdice.algorithms import LobsDICE, OptiDICE
from lobsdice.algorithms.batch import pairs
from lobsdice.data.episodes import Episodes
from lobsdice.data.prepare import Data, prepare
from lobsdice.data.spaces import Discrete
from lobsdice.equations.ratio import bounded_log_ratio
from lobsdice.rewards.scores import Scores, layout
from lobsdice.training.engine import Member, Options
from lobsdice.training.fleet import Fleet, iterate


def test_with_log_ratios_as_rewards_losses_are_those_of_lobsdice_without_alpha(key):
    data = noise_data()
    theirs = LobsDICE(width=5, alpha=0.0, sharpness=1.0, stretch=1)
    nets = shaken(theirs.init(key, data.state_size, data.action_space))
    batch, _ = seven_rows(key)
    r = bounded_log_ratio(nets.r(pairs(batch.offline)), theirs.ratio_floor)
    _, expected = theirs.loss(nets, batch, key, penalised=0)

    ours = OptiDICE(width=5)
    mine = type(ours.init(key, data.state_size, data.action_space))(nets.nu, nets.q, nets.policy)
    _, found = ours.loss(mine, batch._replace(notes=r), key, penalised=0)
    for name in ("average_loss", "nu_loss", "policy_loss"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)


#: The reward of each of two actions in each of three states, and how often each was taken.
REWARDS = np.array([[0.0, 0.5], [1.0, 0.0], [0.2, 0.4]])
COUNTS = np.array([[6, 2], [2, 6], [4, 4]])


def single_steps() -> Data:
    """Episodes of one step each."""
    state, action = (np.repeat(i.ravel(), COUNTS.ravel()) for i in np.indices(COUNTS.shape))
    offline = Episodes.from_arrays(
        np.eye(3)[np.repeat(state, 2)],
        lengths=[1] * len(state),
        actions=action,
        rewards=REWARDS[state, action],
        action_space=Discrete(2),
    )
    return prepare(offline, offline, allow_leak=True)


@pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")
def test_without_a_future_the_policy_is_the_logs_one_times_the_exponential_of_rewards():
    data, alphas = single_steps(), (0.3, 1.0)
    rates: dict[str, Any] = {"nu_rate": 5e-3, "average_rate": 5e-3, "policy_rate": 5e-3}
    algorithms = [OptiDICE(width=16, gamma=0.0, alpha=a, **rates) for a in alphas]
    options = Options(steps=600, batch_size=128, hold_out=False, cooldown=1.0)
    fleet = Fleet(tuple(Member(a, options=options) for a in algorithms), (data,))
    *_, last = iterate(fleet, every=600, begin=(0, beginning(fleet)))
    states = jnp.asarray(data.normaliser(np.eye(3, dtype=np.float32)))
    for i, alpha in enumerate(alphas):
        nets = jax.tree.map(lambda x, i=i: x[i], last.state.nets)
        exact = COUNTS * np.exp(REWARDS / alpha)
        exact = exact[:, 1] / exact.sum(axis=1)
        found = np.exp(nets.policy.log_prob(states, jnp.ones(3, int)))
        np.testing.assert_allclose(found, exact, atol=0.04)


def test_the_row_of_an_end_has_the_reward_of_the_final_state():
    data = noise_data()
    assert data.ends is not None and data.ended is not None
    rng = np.random.default_rng(0)
    steps, beyond = rng.random((2, data.offline.size)).astype(np.float32)
    algorithm = OptiDICE(alpha=0.5)
    found = algorithm.notes(Scores(steps, beyond), layout(data))
    expected = np.concatenate([steps, beyond[data.ended]]) / 0.5
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert len(expected) == data.offline.size + len(data.ends.offline)
    # Rows in the pool are in this order.
    np.testing.assert_array_equal(data.offline.s_next[data.ended], data.ends.offline)
