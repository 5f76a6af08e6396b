"""Twin critics, and the targets that follow them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.lax import stop_gradient
from worlds import noise_data

from lobsdice.algorithms import OPOLO, RCE, IQLearn
from lobsdice.algorithms.batch import beside
from lobsdice.algorithms.critics import Nets, Twins, follow, make_twins, taken
from lobsdice.algorithms.networks import make_policy, without
from lobsdice.data.spaces import Box, Discrete
from lobsdice.training.draws import draw_batch, pack
from lobsdice.training.engine import Options, start, step

each_algorithm = pytest.mark.parametrize("kind", [OPOLO, IQLearn, RCE])


def test_following_goes_part_of_the_way():
    nets = Nets(critic=Twins(1.0, 0.0), target=Twins(0.0, 4.0), policy=7.0)
    assert follow(nets, 0.25) == nets._replace(target=Twins(0.25, 3.0))


@pytest.mark.parametrize("space, size", [(Box((-1.0,) * 2, (1.0,) * 2), 2), (Discrete(4), 4)])
def test_twins_differ_and_the_least_is_the_lesser_at_each_row(key, space, size):
    twins = make_twins(key, 3, space, 8)
    s, action = jax.random.normal(key, (20, 3)), jax.random.normal(key, (20, size))
    one, two = (net(beside(s, action)) for net in twins)
    assert (one != two).all()
    np.testing.assert_array_equal(twins.least(s, action), np.minimum(one, two))


def test_a_fixed_network_passes_slopes_to_its_inputs_only(key):
    twins = make_twins(key, 3, Discrete(2), 8)
    s, action = jax.random.normal(key, (5, 3)), jnp.ones((5, 2))

    def total(twins, action):
        return jnp.sum(stop_gradient(twins).least(s, action))

    weights, inputs = jax.grad(total, argnums=(0, 1))(twins, action)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(weights))
    assert (inputs != 0).any()


@pytest.mark.parametrize("discrete", [False, True], ids=["box", "finite"])
def test_critics_see_an_action_of_the_policys_own_where_none_was_taken(discrete, key):
    data = noise_data(discrete=discrete)
    policy = make_policy(key, data.state_size, data.action_space, 8)
    rows = jax.tree.map(jnp.asarray, data.offline.take(np.arange(data.offline.size)))
    ended = jnp.arange(len(rows.s)) % 3 == 0
    found = taken(policy, rows._replace(a=without(rows.a, ended)), key)
    own = policy.features(policy.sample(rows.s, key))
    np.testing.assert_array_equal(found[ended], own[ended])
    np.testing.assert_array_equal(found[~ended], policy.features(rows.a)[~ended])


@each_algorithm
def test_targets_start_as_copies_and_have_no_rate(kind, key):
    algorithm = kind(width=4)
    nets = algorithm.init(key, 3, Discrete(2))
    assert all(map(jnp.array_equal, jax.tree.leaves(nets.target), jax.tree.leaves(nets.critic)))
    assert set(jax.tree.leaves(algorithm.rates(jnp.int32(0)).target)) == {0.0}


@each_algorithm
def test_a_step_moves_targets_by_tau_and_nothing_else_does(kind, key):
    """Two steps of the loop, so that Adam has a memory; then τ = 0, which must hold them still."""
    data = noise_data()
    pool, slices = pack([data])
    batch = draw_batch(key, pool, jax.tree.map(lambda x: x[0], slices), 8)
    advance = jax.jit(partial(step, penalised=0))
    for tau in (0.25, 0.0):
        algorithm = kind(width=4, tau=tau)
        state = start(algorithm, key, data.state_size, data.action_space)
        for now in range(2):
            old = state.nets
            state, _ = advance(algorithm, Options(), state, batch, key, jnp.int32(now))
            expected = follow(state.nets._replace(target=old.target), tau).target
            leaves = jax.tree.leaves(state.nets.target), jax.tree.leaves(expected)
            for x, y in zip(*leaves, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12)
            assert (state.nets.critic.one.net.weights[0] != old.critic.one.net.weights[0]).any()


@each_algorithm
def test_after_step_touches_only_the_targets(kind, key):
    algorithm = kind(width=4, tau=0.5)
    nets = algorithm.init(key, 3, Discrete(2))
    nets = nets._replace(critic=jax.tree.map(lambda x: x + 1.0, nets.critic))
    after = algorithm.after_step(nets)
    for name in set(nets._fields) - {"target"}:
        assert getattr(after, name) is getattr(nets, name)
    np.testing.assert_allclose(
        after.target.one.net.weights[0], nets.target.one.net.weights[0] + 0.5
    )
