"""Evaluation gives the same numbers for the same seed, for any number of processes."""

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from gymnasium.envs.registration import EnvSpec

from lobsdice.data.normaliser import Normaliser
from lobsdice.data.spaces import Box, Discrete
from lobsdice.environments.evaluate import evaluate, other_bounds, try_step
from lobsdice.errors import DataWarning, LobsDICEError
from lobsdice.policies.policy import Policy

CARTPOLE, PENDULUM = "CartPole-v1", "Pendulum-v1"


def random_policy(inputs: int, space, seed: int, width: int = 64) -> Policy:
    random = np.random.default_rng(seed)
    outputs = 2 * space.size if isinstance(space, Box) else space.n
    sizes = [(inputs, width), (width, width), (width, outputs)]
    weights = tuple((random.normal(size=s) / s[0] ** 0.5).astype(np.float32) for s in sizes)
    biases = tuple(np.zeros(n, np.float32) for _, n in sizes)
    normaliser = Normaliser(np.zeros(inputs, np.float32), np.ones(inputs, np.float32))
    return Policy(weights, biases, normaliser, space)


@pytest.fixture(scope="module")
def carts():
    return [random_policy(4, Discrete(2), seed) for seed in range(2)]


@pytest.fixture(scope="module")
def pendulums():
    return [random_policy(3, Box.of([-2], [2]), seed) for seed in range(2)]


@pytest.mark.parametrize("stochastic", [False, True], ids=["likeliest", "random"])
def test_returns_depend_on_the_seed_and_not_on_the_number_of_processes(pendulums, stochastic):
    found = [
        evaluate(pendulums, PENDULUM, episodes=3, workers=workers, stochastic=stochastic)
        for workers in (1, 2, 3)
    ]
    assert found[0].shape == (2, 3)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    other = evaluate(pendulums, PENDULUM, episodes=3, workers=1, stochastic=stochastic, seed=1)
    assert (other != found[0]).all()


def test_a_policy_is_not_affected_by_its_company(pendulums):
    together = evaluate(pendulums, PENDULUM, episodes=2, workers=2)
    alone = evaluate(pendulums[1:], PENDULUM, episodes=2, workers=1)
    np.testing.assert_array_equal(together[1:], alone)


def test_more_episodes_begin_with_the_same_ones(carts):
    few, many = (evaluate(carts, CARTPOLE, episodes=n, workers=1) for n in (2, 5))
    np.testing.assert_array_equal(few, many[:, :2])


def test_a_simulation_that_breaks_down_has_no_return(pendulums, monkeypatch):
    """A bad policy may break MuJoCo's simulation in one episode during training."""
    broken = EnvSpec("Broken-v0", entry_point=lambda **_: PendulumEnv(g=float("nan")))
    monkeypatch.setitem(gymnasium.registry, "Broken-v0", broken)
    with pytest.warns(UserWarning, match="^2 of 2 episodes have no return"):
        found = evaluate(pendulums[:1], ["Broken-v0"], episodes=2, workers=1)
    assert np.isnan(found).all()


def test_discrete_actions_likeliest_and_random(carts):
    likeliest = evaluate(carts, CARTPOLE, episodes=10, workers=1)
    random = evaluate(carts, CARTPOLE, episodes=10, workers=1, stochastic=True)
    assert (likeliest >= 8).all() and (likeliest <= 500).all()  # a reward of 1 a step
    assert (likeliest != random).any()


def test_misfits_are_sentences(carts, pendulums):
    with pytest.raises(LobsDICEError, match="cannot evaluate 0 episodes"):
        evaluate(carts, CARTPOLE, episodes=0)
    with pytest.raises(LobsDICEError, match="the seed must not be negative, but is -1"):
        evaluate(carts, CARTPOLE, seed=-1)
    for workers in (0, -1):
        with pytest.raises(LobsDICEError, match=f"at least 1 worker, not {workers}"):
            evaluate(carts, CARTPOLE, workers=workers)
    with pytest.raises(LobsDICEError, match="Gymnasium cannot make 'Nowhere-v0'"):
        evaluate(carts, "Nowhere-v0", workers=1)
    with pytest.raises(LobsDICEError, match="actions are not those of CartPole-v1"):
        evaluate(pendulums, CARTPOLE, workers=1)
    with pytest.raises(LobsDICEError, match="actions are not those of Pendulum-v1"):
        evaluate(carts, PENDULUM, workers=2)
    wide = [random_policy(5, Discrete(2), 0)]
    with pytest.raises(LobsDICEError, match="takes observations of 5 numbers"):
        evaluate(wide, CARTPOLE, workers=2)


class Wide(PendulumEnv):
    """A pendulum whose actions are percents."""

    action_space = gymnasium.spaces.Box(-100.0, 100.0, (1,), np.float64)

    def __init__(self):
        super().__init__()
        self.action_space = Wide.action_space


BOUNDS = {
    "wider": (-100.0, 100.0, True),
    "narrower": (-1.0, 1.0, True),
    "shifted": (0.0, 4.0, True),
    "rounded": (-1.999, 1.99, False),
    "a little wider": (-2.5, 2.5, False),
    "none": (-np.inf, np.inf, False),
}


@pytest.mark.parametrize("case", BOUNDS)
def test_clearly_other_bounds_of_actions_are_a_sentence_with_both(case):
    low, high, differ = BOUNDS[case]
    env: Any = PendulumEnv()
    env.action_space = gymnasium.spaces.Box(low, high, (1,), np.float64)
    said = other_bounds(env, Box.of([-2], [2]), "Pendulum")
    assert (said is not None) == differ
    if differ:
        both = rf"in \[-2, 2\], but those of Pendulum in \[{low:g}, {high:g}\] \(action 0\)"
        assert re.search(both, str(said))


def test_evaluation_and_training_warn_of_other_bounds(pendulums):
    env = gymnasium.wrappers.TimeLimit(Wide(), 3)
    with pytest.warns(DataWarning, match=r"\[-2, 2\], but those of TimeLimit in \[-100, 100\]"):
        evaluate(pendulums, env, episodes=1)
    with pytest.warns(DataWarning, match="but those of TimeLimit in"):
        try_step(env, 3, Box.of([-2], [2]))


class Old(PendulumEnv):
    """An environment as Gym had them."""

    def reset(self, **options) -> Any:
        return super().reset(**options)[0]


def test_a_reset_that_returns_only_the_observation_is_a_sentence(pendulums):
    words = (
        r"environment Old returned a value of type ndarray; .* must return \(observation, info\)"
    )
    with pytest.raises(LobsDICEError, match=words):
        evaluate(pendulums, Old(), episodes=1)


def test_each_policy_may_have_an_environment_of_its_own(carts, pendulums):
    together = evaluate([carts[0], pendulums[0]], [CARTPOLE, PENDULUM], episodes=2, workers=1)
    np.testing.assert_array_equal(together[0], evaluate(carts[:1], CARTPOLE, episodes=2)[0])
    np.testing.assert_array_equal(together[1], evaluate(pendulums[:1], PENDULUM, episodes=2)[0])
