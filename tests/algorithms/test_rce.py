"""The losses of RCE against their equations, and the success of its policies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algorithms.actors import (
    assert_same_losses,
    critic,
    expect,
    log_likelihood,
    noise_of,
    numbers,
    seen,
    setting,
)
from algorithms.probe import fit, policy_table
from algorithms.transcription import sigmoid, slopes
from worlds import World, one_hot_data

from lobsdice import tabular
from lobsdice.algorithms import BC, RCE, bc as cloning
from lobsdice.algorithms.networks import without
from lobsdice.algorithms.rce import cloning_error, odds

#: Training is done once for all tests of this file.
pytestmark = pytest.mark.xdist_group("rce")

ALGORITHM = RCE(width=5)
each_space = pytest.mark.parametrize("space", ["box", "finite"])


def cross_entropy(c, y):
    return -y * np.log(c) - (1 - y) * np.log(1 - c)


def transcribed(nets, b, key, space):
    """The losses of one classifier and of the policy, as functions of these networks alone."""
    k_next, k_examples, k_policy = jax.random.split(key, 3)
    keys = (k_next, jax.random.split(k_examples)[0], k_policy)
    noises = [noise_of(k, 7, space) for k in keys]
    frozen = {name: numbers(net) for name, net in nets._asdict().items()}

    def least(critics, s, action):
        return sigmoid(np.min([critic(q, s, action) for q in critics], axis=0))

    def w_of(action, _):
        c = least(frozen["target"], b.offline.s_next, action)
        return c / (1 - c + 1e-5)

    w = expect(frozen["policy"], b.offline.s_next, w_of, noises[0])

    def of_critic(net):
        def example(action, _):
            return cross_entropy(sigmoid(critic(net, b.expert.s, action)), 1)

        c = sigmoid(critic(net, b.offline.s, seen(b.offline.a)))
        data = (1 + 0.99 * w) * cross_entropy(c, 0.99 * w / (1 + 0.99 * w))
        examples = expect(frozen["policy"], b.expert.s, example, noises[1])
        return 0.01 * examples.mean() + data.mean()

    def success(net):
        return expect(
            net, b.offline.s, lambda a, _: least(frozen["critic"], b.offline.s, a), noises[2]
        ).mean()

    def of_policy(net):
        entropy = -expect(net, b.offline.s, lambda _, log_prob: log_prob, noises[2]).mean()
        if space == "finite":
            distance = -log_likelihood(net, b.offline.s, b.offline.a)
        else:
            distance = expect(
                net, b.offline.s, lambda a, _: ((a - b.offline.a) ** 2).mean(1), noises[2]
            )
        weight = 2.5 / success(frozen["policy"])
        return distance.mean() - weight * (success(net) + 1e-4 * entropy)

    return of_critic, of_policy


@each_space
def test_losses_and_gradients_are_those_of_the_equations(key, space):
    nets, batch, b = setting(ALGORITHM, key, space)
    of_critic, of_policy = transcribed(nets, b, key, space)
    assert_same_losses(ALGORITHM, nets, batch, key, of_critic, of_policy)


def test_odds_are_exponentials_of_logits_that_cannot_be_infinite():
    logits = jax.numpy.array([-30.0, 0.0, 3.0, 1000.0])
    np.testing.assert_allclose(odds(logits)[:3], np.exp(logits[:3]), rtol=1e-3)
    np.testing.assert_allclose(odds(logits)[3], 1e5)


def test_where_success_counts_nothing_it_clones_discrete_actions(key):
    nets, batch, _ = setting(ALGORITHM, key, "finite")
    none = RCE(width=5, success_weight=0.0)
    ours, _ = slopes(none, nets, batch, key)
    theirs, _ = slopes(BC(width=5), cloning.Nets(nets.policy), batch, key)
    leaves = jax.tree.leaves(ours.policy), jax.tree.leaves(theirs.policy)
    for x, y in zip(*leaves, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)


@each_space
def test_nothing_is_cloned_where_there_is_no_action(key, space):
    nets, batch, _ = setting(ALGORITHM, key, space)
    rows, ended = batch.offline, jnp.arange(7) % 3 == 0
    some = rows._replace(a=without(rows.a, ended))
    known, found = (cloning_error(nets.policy, x, key) for x in (rows, some))
    np.testing.assert_array_equal(found, jnp.where(ended, 0, known))


# ---- Reaching a goal ----

GAMMA, STATES, ACTIONS = 0.8, 6, 3


def goal_world(seed: int) -> World:
    """Random moves, all of them shown equally often, and a last state that is the goal for good."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(0.3 * np.ones(STATES), size=(STATES, ACTIONS))
    moves[..., -1] *= 0.3  # seldom reached by chance
    moves[-1] = np.eye(STATES)[-1]
    offline = np.ceil(200 * np.where(moves > 1e-3, moves, 0)).astype(int)
    reached, starts = np.zeros((STATES, STATES), int), np.ones(STATES, int)
    reached[-1, -1], starts[-1] = 1, 0
    mdp = tabular.from_counts(offline, starts, GAMMA)
    data = one_hot_data(offline, reached, offline, starts)
    d_offline = offline.sum(-1) / offline.sum()
    return World(mdp, reached.astype(float), d_offline, d_offline, data)


def success(mdp: tabular.MDP, policy: np.ndarray) -> float:
    """p(success after a geometric time | p0, π) = (1-γ) Σ_t γ^t Pr(s_t is the goal)."""
    return tabular.occupancy(mdp, policy)[-1].sum()


def best_policy(mdp: tabular.MDP) -> np.ndarray:
    reward = np.zeros((STATES, ACTIONS))
    reward[-1] = 1
    return tabular.greedy(tabular.optimal_action_value(mdp, reward))


GOALS = [goal_world(seed) for seed in range(3)]


@pytest.fixture(scope="module")
def trained():
    # So much weight on success that the data count as moves only, not as examples.
    algorithm = RCE(
        gamma=GAMMA, tau=0.05, success_weight=1e6, critic_rate=5e-3, policy_rate=3e-3, width=32
    )
    return fit([algorithm] * 3, GOALS, steps=800)


def test_the_policy_reaches_the_goal_as_often_as_can_be(trained):
    for run in range(3):
        mdp = GOALS[run].mdp
        best = success(mdp, best_policy(mdp))
        assert success(mdp, policy_table(trained, run, STATES)) > 0.98 * best
        assert success(mdp, np.full((STATES, ACTIONS), 1 / ACTIONS)) < 0.8 * best
