"""`cartpole` is Gymnasium's CartPole, and its noisy version adds pushes to the pole alone."""

import gymnasium
import numpy as np

from lobsdice.environments.worlds.cartpole import PUSHED, CartPole


def test_without_pushes_it_is_gymnasiums():
    ours, theirs = CartPole(), gymnasium.make("CartPole-v1").unwrapped
    assert (ours.reset(seed=1)[0] == theirs.reset(seed=1)[0]).all()
    random, ended = np.random.default_rng(0), False
    while not ended:
        action = int(random.integers(2))
        (state, reward, ended, *_), wanted = ours.step(action), theirs.step(action)
        assert (state == wanted[0]).all() and (reward, ended) == wanted[1:3]


def test_a_push_changes_the_angular_velocity_in_one_step_of_ten():
    calm, pushed, changes = CartPole(), CartPole(push=0.3), []
    pushed.reset(seed=0)
    for _ in range(2000):
        for env in (calm, pushed):
            env.state, env.steps_beyond_terminated = np.zeros(4), None
        changes.append(pushed.step(1)[0] - calm.step(1)[0])
    changes = np.array(changes)
    hit = changes[:, 3] != 0
    assert (changes[:, :2][~hit] == 0).all() and abs(hit.mean() - PUSHED) < 0.03
    np.testing.assert_allclose(changes[hit, 3].std(), 0.3, rtol=0.15)
