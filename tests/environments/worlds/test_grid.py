"""The grid's exact table says what its steps do."""

import numpy as np
import pytest

from lobsdice.environments.tasks.table import WORLDS
from lobsdice.environments.worlds.grid import MOVES, Grid, action_probabilities, table


def steps(env: Grid, state: int, action: int, count: int) -> np.ndarray:
    """The numbers of the states after one step, many times."""
    found = []
    for _ in range(count):
        env._state = state
        env.step(action)
        found.append(env._state)
    return np.array(found)


def test_the_table_is_a_markov_decision_process():
    for slip in (0.0, 0.2):
        exact = table(slip)
        np.testing.assert_allclose(exact.transition.sum(axis=-1), 1)
        assert exact.initial.sum() == pytest.approx(1) and not exact.initial[exact.final].any()
        assert exact.goal.sum() == 1 and exact.final.sum() > 3
        own = np.arange(len(exact.final))[exact.final]
        assert (exact.transition[own, :, own] == 1).all()


def test_every_step_of_the_deterministic_grid_is_in_the_table():
    env, exact = Grid(), table()
    env.reset(seed=0)
    for state in np.flatnonzero(~exact.final):
        for action in range(len(MOVES)):
            env._state = int(state)
            observation, reward, terminated, _, info = env.step(action)
            after = int(exact.transition[state, action].argmax())
            assert exact.transition[state, action, after] == 1
            assert (observation == exact.observations[after]).all()
            assert terminated == exact.final[after]
            assert reward == exact.goal[after] == info["success"]


def test_slips_have_the_frequencies_of_the_table():
    env, exact = Grid(slip=0.2), Grid(slip=0.2).table()
    env.reset(seed=0)
    random = np.random.default_rng(0)
    for state in random.choice(np.flatnonzero(~exact.final), 8, replace=False):
        action = int(random.integers(len(MOVES)))
        found = steps(env, int(state), action, 4000)
        frequencies = np.bincount(found, minlength=len(exact.final)) / 4000
        wanted = exact.transition[state, action]
        assert (frequencies[wanted == 0] == 0).all()
        assert (np.abs(frequencies - wanted) <= 5 * np.sqrt(wanted * (1 - wanted) / 4000)).all()


def test_episodes_start_as_often_in_each_start_as_the_table_says():
    env, exact = Grid(), table()
    numbers = {tuple(place): i for i, place in enumerate(exact.observations.tolist())}
    found = [numbers[tuple(env.reset(seed=seed)[0].tolist())] for seed in range(1000)]
    frequencies = np.bincount(found, minlength=len(exact.initial)) / 1000
    assert (frequencies[exact.initial == 0] == 0).all()
    assert np.abs(frequencies - exact.initial).max() < 0.05


@pytest.mark.parametrize("name", ["grid", "grid-noisy"])
def test_the_demonstrators_exact_success_is_what_was_measured(name):
    spec = WORLDS[name]
    exact, policy = table(spec.options["slip"]), action_probabilities()
    kernel = np.einsum("sa,sat->st", policy, exact.transition)
    reached = exact.initial @ np.linalg.matrix_power(kernel, spec.max_steps)
    success, measured = reached[exact.goal].sum(), spec.reference("expert")
    assert abs(success - measured.mean) <= 4 * measured.standard_error + 0.002
