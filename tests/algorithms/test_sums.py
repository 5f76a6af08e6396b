"""Cloning by sums along episodes: the weights against loops, the policy against exact shares."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import beginning, noise_data

from lobsdice.algorithms import TAILO, NearestTrajectory
from lobsdice.algorithms.batch import Batch
from lobsdice.algorithms.sums import Nets
from lobsdice.data.episodes import Episodes
from lobsdice.data.prepare import prepare
from lobsdice.data.spaces import Discrete
from lobsdice.errors import LobsDICEError
from lobsdice.rewards.scores import Layout, Scores, layout
from lobsdice.training.engine import Member, Options
from lobsdice.training.fleet import Fleet, iterate

#: Two episodes, of three and of two steps; the first one terminated.
LAST = np.array([False, False, True, False, True])
ENDED = np.array([False, False, True, False, False])
STEPS = np.array([1.0, 3.0, 2.0, 0.5, 4.0], np.float32)
BEYOND = np.where(ENDED, 0.25, STEPS).astype(np.float32)
TWO_EPISODES = Layout(LAST, ENDED, 1)


@pytest.mark.parametrize(
    "reward, sharpness, likeness",
    [
        ("nearest", 1.0, lambda d: np.exp(-np.maximum(d / 2.0 - 1, 0))),
        ("nearest", 0.5, lambda d: np.exp(-0.5 * np.maximum(d / 2.0 - 1, 0))),
        # OTR's exponent.
        ("transport", 1.0, lambda c: np.exp(-5 * c)),
        ("transport", 0.5, lambda c: np.exp(-2.5 * c)),
    ],
)
def test_weights_of_nearest_trajectories_are_those_of_the_formula(reward, sharpness, likeness):
    algorithm = NearestTrajectory(reward=reward, sharpness=sharpness)
    found = algorithm.notes(Scores(STEPS, BEYOND, unit=2.0), TWO_EPISODES)
    u, u_end = likeness(STEPS), likeness(BEYOND)
    expected = np.empty(5)
    for t in reversed(range(5)):
        later = u_end[t] if LAST[t] else expected[t + 1]
        expected[t] = 0.02 * u[t] + 0.98 * later
    np.testing.assert_allclose(found, expected / 0.1, rtol=1e-5)


def test_weights_of_tailo_are_its_sums_by_the_largest():
    logits = STEPS - 2
    found = TAILO(gamma=0.9).notes(Scores(logits, logits), TWO_EPISODES)
    w = np.empty(5)
    for t in reversed(range(5)):
        x = np.exp(1.25 * logits[t])
        w[t] = x / (1 - 0.9) if LAST[t] else x + 0.9 * w[t + 1]
    np.testing.assert_allclose(np.exp(found - found.max()), w / w.max(), rtol=1e-4)


def test_recorded_rewards_count_by_their_rank_in_their_range():
    rewards = np.array([-5.0, 5.0, 0.0, 5.0, -5.0], np.float32)
    scores = Scores(rewards, rewards)
    found = TAILO(reward="recorded", gamma=0.0).notes(scores, TWO_EPISODES)
    np.testing.assert_allclose(np.exp(found), [0, 1, 0.5, 1, 0], atol=1e-5)


@pytest.mark.filterwarnings("ignore::lobsdice.errors.DataWarning")
def test_the_policy_has_the_weighted_shares_of_actions():
    """In each state, the share of an action is that of the weight of the rows with it."""
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, 3, 66), rng.integers(0, 2, 60)
    offline = Episodes.from_arrays(
        np.eye(3)[s], lengths=[10] * 6, actions=a, action_space=Discrete(2), rewards=rng.random(60)
    )
    data = prepare(offline, offline, allow_leak=True)
    algorithm = NearestTrajectory(
        reward="recorded", temperature=0.3, width=16, policy_rate=3e-3, gamma=0.5
    )
    options = Options(steps=600, batch_size=128, hold_out=False, cooldown=1.0, average=0.99)
    fleet = Fleet((Member(algorithm, options=options),), (data,))
    *_, last = iterate(fleet, every=600, begin=(0, beginning(fleet)))
    assert fleet.noted is not None
    w = np.exp(np.asarray(fleet.noted.notes))
    state = data.offline.s.argmax(axis=1)
    policy = fleet.policies(last.state)[0]
    for i in range(3):
        here = state == i
        share = w[here & (data.offline.a == 1)].sum() / w[here].sum()
        logits = _logits(policy, data.offline.s[here][:1])
        np.testing.assert_allclose(np.exp(logits)[1] / np.exp(logits).sum(), share, atol=0.06)


def _logits(policy, x):
    for i, (w, b) in enumerate(zip(policy.weights, policy.biases, strict=True)):
        x = x @ w + b
        x = np.maximum(x, 0) if i < len(policy.weights) - 1 else x
    return x[0]


def test_logs_without_episodes_are_refused():
    with pytest.raises(LobsDICEError, match="which logged steps belong to one episode"):
        layout(replace(noise_data(), episode=None))


def test_the_effective_share_is_that_of_the_weights():
    data = noise_data()
    rows = np.arange(3)
    parts = jax.tree.map(jnp.asarray, (data.expert.take(rows), data.offline.take(rows)))
    batch = Batch(jnp.asarray(data.init), *parts, notes=jnp.log(jnp.array([1.0, 1.0, 2.0])))
    found = TAILO().diagnose(Nets(None), batch, jax.random.key(0))
    np.testing.assert_allclose(found["effective_share"], 4**2 / (3 * 6))
