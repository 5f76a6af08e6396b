"""IQL against a transcription of its losses, and against the values of a chain that can be solved.

SEABO and OTR are IQL with their own rewards, which are compared with brute force.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algorithms.transcription import network
from worlds import beginning, noise_data

from lobsdice.algorithms import IQL, OTR, SEABO
from lobsdice.algorithms.scored import Worth
from lobsdice.data.episodes import Episodes
from lobsdice.data.prepare import Data, prepare
from lobsdice.data.spaces import Discrete
from lobsdice.errors import LobsDICEError
from lobsdice.rewards.nearest import score_nearest
from lobsdice.rewards.scores import Scores, layout
from lobsdice.rewards.transport import score_transport
from lobsdice.training.draws import draw_batch
from lobsdice.training.engine import Member, Options
from lobsdice.training.fleet import Fleet, iterate


def plain(net):
    return [np.asarray(w) for w in net.net.weights], [np.asarray(b) for b in net.net.biases]


def test_losses_are_the_published_ones():
    algorithm, data = IQL(width=8, absorb=False), noise_data()
    pool, slices = Fleet((Member(algorithm),), (data,)).pool()
    b = draw_batch(jax.random.key(0), pool, jax.tree.map(lambda x: x[0], slices), 32)
    nets = algorithm.init(jax.random.key(1), data.state_size, data.action_space)
    nets = nets._replace(target=jax.tree.map(lambda x: 1.1 * x, nets.target))
    _, found = algorithm.loss(nets, b, jax.random.key(2), penalised=0)

    s, s_next = np.asarray(b.offline.s), np.asarray(b.offline.s_next)
    sa = np.hstack([s, b.offline.a])
    q = np.min([network(plain(net), sa)[:, 0] for net in nets.target], axis=0)
    v, v_next = (network(plain(nets.value), x)[:, 0] for x in (s, s_next))
    u = q - v
    np.testing.assert_allclose(found["value_loss"], np.mean(np.where(u < 0, 0.3, 0.7) * u**2))
    y = b.notes.reward + 0.99 * np.where(b.notes.ended, 0, v_next)
    squares = [np.mean((network(plain(net), sa)[:, 0] - y) ** 2) for net in nets.critic]
    np.testing.assert_allclose(found["critic_loss"], sum(squares), rtol=1e-6)
    log_prob = nets.policy.log_prob(b.offline.s, b.offline.a)
    weighted = np.minimum(np.exp(3 * u), 100) * log_prob
    np.testing.assert_allclose(found["policy_loss"], -np.mean(weighted), rtol=1e-6)


# ---- A chain ----

STATES, GAMMA = 5, 0.9


def chain() -> Data:
    """Each state's two actions, stay and go on, equally often; the last step ends the episode."""
    stay = [[i, i, i + 1] for i in range(STATES - 1)]
    numbers = np.concatenate([*stay])  # one episode of two steps for each state
    offline = Episodes.from_arrays(
        np.eye(STATES)[numbers],
        lengths=[2] * (STATES - 1),
        actions=[0, 1] * (STATES - 1),
        rewards=[0, 0] * (STATES - 2) + [0, 1],
        terminated=[i == STATES - 2 for i in range(STATES - 1)],
        action_space=Discrete(2),
    )
    return prepare(offline, offline, allow_leak=True)


def exact_values(tau: float) -> np.ndarray:
    """The fixed point V = expectile of {γ V, r + γ V'}; of two values it is a weighted mean."""
    v = np.zeros(STATES)
    for _ in range(2000):
        stay, go = GAMMA * v[:-1], GAMMA * v[1:] * (np.arange(1, STATES) < STATES - 1)
        go[-1] += 1
        high, low = np.maximum(stay, go), np.minimum(stay, go)
        v[:-1] = tau * high + (1 - tau) * low
    return v[:-1]


@pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")
def test_values_of_a_chain_are_the_exact_ones_and_the_policy_goes_on():
    data = chain()
    rates: dict[str, Any] = {"critic_rate": 5e-3, "policy_rate": 5e-3, "tau": 0.1}
    taus = (0.5, 0.9)
    algorithms = [IQL(width=32, gamma=GAMMA, expectile=tau, **rates) for tau in taus]
    options = Options(steps=1500, batch_size=32, hold_out=False, cooldown=1.0)
    fleet = Fleet(tuple(Member(a, options=options) for a in algorithms), (data,))
    *_, last = iterate(fleet, every=1500, begin=(0, beginning(fleet)))
    states = jnp.asarray(data.offline.s[::2])
    for i, tau in enumerate(taus):
        nets = jax.tree.map(lambda x, i=i: x[i], last.state.nets)
        np.testing.assert_allclose(nets.value(states), exact_values(tau), atol=0.03)
        assert (nets.policy.log_prob(states, jnp.ones(STATES - 1, int)) > np.log(0.5)).all()


def test_the_end_of_an_episode_is_worth_nothing_or_its_reward_for_ever():
    ended, last = jnp.array([True, False]), jnp.ones(2, bool)
    worth = Worth(jnp.array([1.0, 1.0]), jnp.array([0.5, 0.5]), ended, last)
    v = jnp.array([7.0, 7.0])
    np.testing.assert_allclose(IQL(gamma=0.9)._target(worth, v), [1, 1 + 0.9 * 7])
    # The reward 0.5 after each of all later steps.
    expected = [1 + 0.9 * 0.5 / (1 - 0.9), 1 + 0.9 * 7]
    np.testing.assert_allclose(IQL(gamma=0.9, absorb=True)._target(worth, v), expected)


def test_with_ends_for_ever_rewards_are_centred_which_changes_no_advantage():
    data, gamma = noise_data(), 0.9
    scores = Scores(*np.random.default_rng(0).random((2, data.offline.size)).astype(np.float32))
    plain = IQL(gamma=gamma).notes(scores, layout(data))
    algorithm = IQL(gamma=gamma, absorb=True)
    centred = algorithm.notes(scores, layout(data))
    assert abs(centred.reward.mean()) < 1e-6
    np.testing.assert_array_equal(algorithm.shown(scores, layout(data)), plain.reward)
    # All values are lower by the sum of the constant for ever, wherever an episode goes.
    shift = np.mean(scores.steps) / (1 - gamma)
    v = jnp.linspace(-1, 1, data.offline.size)
    found = algorithm._target(plain, v) - algorithm._target(centred, v - shift)
    np.testing.assert_allclose(found, shift, rtol=1e-5)


def test_ends_for_ever_without_a_discount_are_refused():
    with pytest.raises(LobsDICEError, match="with gamma = 1"):
        Fleet((Member(IQL(gamma=1.0, absorb=True)),), (noise_data(),)).pool()


# ---- Its rewards ----


def test_rewards_of_seabo_are_those_of_its_formula():
    data = noise_data()
    worth = SEABO().notes(score_nearest(data, raw=True), layout(data))
    by = data.normaliser.scale
    queries, points = (np.hstack([x.s * by, x.s_next * by]) for x in (data.offline, data.expert))
    d = np.sqrt(((queries[:, None] - points[None]) ** 2).sum(-1)).min(axis=1)
    np.testing.assert_allclose(worth.reward, np.exp(-0.5 * d / 2), rtol=1e-5)
    assert SEABO().scored_by == IQL(reward="nearest", raw_units=True).scored_by


def test_rewards_of_otr_are_its_formula_scaled_to_returns_that_span_a_thousand():
    data = noise_data()
    scores = score_transport(data, raw=True)
    worth = OTR().notes(scores, layout(data))
    plain = 5 * np.exp(-5 * scores.steps)
    returns = plain.reshape(-1, 10).sum(axis=1)
    expected = plain * 1000 / (returns.max() - returns.min())
    np.testing.assert_allclose(worth.reward, expected, rtol=1e-5)


def test_episodes_of_equal_return_give_no_scale():
    data = noise_data()
    reward = np.full(data.offline.size, 0.5, np.float32)
    worth = IQL(rescale=True).notes(Scores(reward, reward), layout(data))
    np.testing.assert_array_equal(worth.reward, reward)


def test_recorded_rewards_are_taken_as_they_are_and_missing_ones_are_named():
    data = noise_data()
    fleet = Fleet((Member(IQL(width=8)),), (data,))
    assert fleet.noted is not None
    np.testing.assert_array_equal(fleet.noted.notes.reward[: len(data.offline.s)], data.rewards)
    with pytest.raises(LobsDICEError, match="no rewards; name their column with `reward_column`"):
        Fleet((Member(IQL(width=8)),), (replace(data, rewards=None),)).pool()


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        ("ratio", [0, 0.5]),
        ("nearest", [1.0, np.exp(-0.25)]),
        ("transport", [5, 5 * np.exp(-2.5)]),
    ],
)
def test_sharpness_is_a_factor_on_exponents_or_log_ratios(reward, expected):
    numbers = np.array([0, 1], np.float32)
    scores = Scores(numbers, numbers)
    two = layout(noise_data())._replace(last=np.array([False, True]), ended=np.zeros(2, bool))
    found = IQL(reward=reward, sharpness=0.5).worth(scores, two._replace(action_size=1)).reward
    np.testing.assert_allclose(found, expected, rtol=1e-6)
