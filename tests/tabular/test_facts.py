"""The paper's statements about LobsDICE and its baselines on finite MDPs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from tabular.mdps import World, conic, divergence, make_world, relative_entropy

from lobsdice import tabular
from lobsdice.equations import duals
from lobsdice.tabular.reference import tabular_objective

ALPHA = 0.1


def pairs(mdp, d):
    return tabular.pair_occupancy(mdp, d)


def log_ratio(world: World):
    """log d^E(s,s')/d^I(s,s') where d^I > 0."""
    q = pairs(world.mdp, world.d_offline)
    return np.where(q > 0, np.log(np.where(q > 0, world.d_expert, 1) / np.where(q > 0, q, 1)), 0.0)


def paper_dual(world: World, mu, nu, alpha=ALPHA):
    """J(μ, ν) of eq. (52)."""
    value, _ = tabular_objective(
        jnp.asarray(mu),
        jnp.asarray(nu),
        mdp=world.mdp,
        r=jnp.asarray(log_ratio(world)),
        d_offline=jnp.asarray(world.d_offline),
        alpha=alpha,
    )
    return float(value)


def random_occupancies(world, count=20):
    rng = np.random.default_rng(1)
    for _ in range(count):
        policy = rng.dirichlet(np.ones(world.mdp.actions), size=world.mdp.states)
        yield tabular.occupancy(world.mdp, policy)


def test_strong_duality_holds_at_the_papers_objective(world):
    solution = tabular.lobsdice(world.mdp, world.d_expert, world.d_offline, alpha=ALPHA, mix=0.0)
    np.testing.assert_allclose(
        -paper_dual(world, solution.mu, solution.nu), solution.dual, rtol=1e-9
    )
    assert 0 <= solution.gap + 1e-14 < 1e-11


def test_the_primal_is_the_sum_of_the_two_divergences(world):
    solution = tabular.lobsdice(world.mdp, world.d_expert, world.d_offline, alpha=ALPHA, mix=0.0)
    d = solution.occupancy
    value = relative_entropy(pairs(world.mdp, d), world.d_expert)
    value += ALPHA * relative_entropy(d, world.d_offline)
    np.testing.assert_allclose(solution.primal, value, rtol=1e-12)


def test_every_dual_point_is_below_every_stationary_distribution(world):
    rng = np.random.default_rng(0)
    size = world.mdp.states
    best = tabular.lobsdice(world.mdp, world.d_expert, world.d_offline, alpha=ALPHA, mix=0.0)
    for d in random_occupancies(world):
        value = relative_entropy(pairs(world.mdp, d), world.d_expert)
        value += ALPHA * relative_entropy(d, world.d_offline)
        bound = -paper_dual(world, rng.normal(size=(size, size)), rng.normal(size=size))
        assert bound <= best.dual <= best.primal + 1e-14 <= value + 1e-14


def test_the_closed_form_weights_at_the_dual_optimum_are_the_occupancy_ratio(world):
    solution = tabular.lobsdice(world.mdp, world.d_expert, world.d_offline, alpha=ALPHA, mix=0.0)
    d, q = solution.occupancy, pairs(world.mdp, world.d_offline)
    inner = -solution.mu - solution.nu[:, None] + world.mdp.gamma * solution.nu
    e = np.einsum("sat,st->sa", world.mdp.transition, inner).ravel()
    w = duals.closed_form_weights(jnp.asarray(e), alpha=ALPHA).reshape(d.shape)
    np.testing.assert_allclose(w * world.d_offline, d, atol=1e-7)
    r, mu = jnp.asarray(log_ratio(world).ravel()), jnp.asarray(solution.mu.ravel())
    w_pairs = duals.closed_form_pair_weights(r, mu).reshape(q.shape)
    np.testing.assert_allclose(w_pairs * q, pairs(world.mdp, d), atol=1e-7)


def test_weighted_behaviour_cloning_recovers_the_optimal_policy(world):
    """Appendix C, by maximising the weighted likelihood numerically."""
    solution = tabular.lobsdice(world.mdp, world.d_expert, world.d_offline, alpha=ALPHA)
    weighted = jnp.asarray(solution.occupancy)

    def loss(logits):
        return -jnp.sum(weighted * jax.nn.log_softmax(logits.reshape(weighted.shape)))

    found = minimize(
        jax.value_and_grad(loss), np.zeros(weighted.size), jac=True, options={"gtol": 1e-9}
    )
    policy = tabular.softmax(found.x.reshape(weighted.shape), 1.0)
    np.testing.assert_allclose(policy, solution.policy, atol=1e-4)


def test_the_policys_own_occupancy_is_the_solutions(world):
    solution = tabular.lobsdice(world.mdp, world.d_expert, world.d_offline, alpha=ALPHA)
    own = tabular.occupancy(world.mdp, solution.policy)
    np.testing.assert_allclose(own, solution.occupancy, atol=1e-14)


def test_with_the_experts_own_data_lobsdice_and_bco_are_behaviour_cloning(world):
    """Appendix E.2: D^E is D^I without its actions."""
    d_expert = pairs(world.mdp, world.d_offline)
    cloned = tabular.bc(world.mdp, world.d_offline).policy
    lobsdice = tabular.lobsdice(world.mdp, d_expert, world.d_offline, alpha=ALPHA)
    np.testing.assert_allclose(lobsdice.policy, cloned, atol=1e-9)
    np.testing.assert_allclose(lobsdice.primal, 0, atol=1e-12)
    np.testing.assert_allclose(
        tabular.bco(world.mdp, d_expert, world.d_offline).policy, cloned, atol=1e-12
    )


def bound_and_gap(world, d):
    """OPOLO's bound of KL(d̄ ‖ d^E), the divergence itself, and KL(d(a|s,s') ‖ d^I(a|s,s'))."""
    mdp, q = world.mdp, pairs(world.mdp, world.d_offline)
    own = pairs(mdp, d)
    bound = -float(np.sum(own * log_ratio(world))) + relative_entropy(d, world.d_offline)
    joint, joint_q = d[..., None] * mdp.transition, world.d_offline[..., None] * mdp.transition
    inverse = relative_entropy(joint, joint_q) - relative_entropy(own, q)
    return bound, relative_entropy(own, world.d_expert), inverse


def test_opolos_bound_is_loose_by_the_disagreement_of_inverse_dynamics(world):
    for d in random_occupancies(world):
        bound, divergence, inverse = bound_and_gap(world, d)
        np.testing.assert_allclose(bound - divergence, inverse, atol=1e-12)
        assert inverse > 1e-3


def test_opolos_bound_is_tight_when_pairs_reveal_the_action(injective):
    full = injective._replace(d_expert=pairs(injective.mdp, next(random_occupancies(injective))))
    for d in random_occupancies(injective):
        bound, divergence, inverse = bound_and_gap(full, d)
        np.testing.assert_allclose([bound - divergence, inverse], 0, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_opolo_is_lobsdice_when_pairs_reveal_the_action(injective, alpha):
    arguments = (injective.mdp, injective.d_expert, injective.d_offline)
    lobsdice = tabular.lobsdice(*arguments, alpha=alpha)
    opolo = tabular.opolo(*arguments, alpha=alpha)
    np.testing.assert_allclose(opolo.policy, lobsdice.policy, atol=1e-6)
    np.testing.assert_allclose(opolo.primal, lobsdice.primal, rtol=1e-9)


def test_opolo_is_not_lobsdice_in_stochastic_mdps(world):
    arguments = (world.mdp, world.d_expert, world.d_offline)
    lobsdice = tabular.lobsdice(*arguments, alpha=ALPHA)
    opolo = tabular.opolo(*arguments, alpha=ALPHA)
    assert abs(opolo.policy - lobsdice.policy).max() > 0.01


@pytest.mark.parametrize("which", ["world", "injective"])
def test_smodices_bound_is_loose_by_the_policies_divergence_even_if_deterministic(which, request):
    world = request.getfixturevalue(which)
    q = world.d_offline.sum(1)
    expert = world.d_expert.sum(1)
    for d in random_occupancies(world):
        own = d.sum(1)
        bound = float(np.sum(own * np.log(q / expert))) + relative_entropy(d, world.d_offline)
        policies = relative_entropy(d, own[:, None] * world.behaviour)
        np.testing.assert_allclose(bound - relative_entropy(own, expert), policies, atol=1e-12)
        assert policies > 1e-3


def test_smodice_misses_states_that_matching_states_finds(injective):
    arguments = (injective.mdp, injective.d_expert, injective.d_offline)
    expert = injective.d_expert.sum(1)

    def miss(solution):
        return relative_entropy(solution.occupancy.sum(1), expert)

    exact = tabular.lobsdice_state(*arguments, alpha=1e-4, mix=1e-6)
    assert miss(exact) < 1e-3 < 0.02 < miss(tabular.smodice(*arguments, mix=1e-6))


def test_small_alpha_recovers_the_experts_pairs(world):
    """The distance to the expert's pairs falls with α, and is zero in the limit."""
    distances = []
    for alpha in (1e-1, 1e-2, 1e-3, 1e-4):
        solution = tabular.lobsdice(
            world.mdp, world.d_expert, world.d_offline, alpha=alpha, mix=0.0
        )
        own = pairs(world.mdp, solution.occupancy)
        distances.append(tabular.total_variation(own, world.d_expert))
    assert distances == sorted(distances, reverse=True) and distances[-1] < 1e-3


def test_matching_states_cannot_tell_directions_on_a_ring_and_matching_pairs_can():
    """Appendix A, with a third action that stays; the expert walks in one direction."""
    size = 6
    moves = [np.roll(np.eye(size), step, axis=1) for step in (1, -1, 0)]
    mdp = tabular.MDP(np.stack(moves, axis=1), np.full(size, 1 / size), 0.95)
    expert = np.tile([1.0, 0.0, 0.0], (size, 1))
    d_expert = pairs(mdp, tabular.occupancy(mdp, expert))
    d_offline = tabular.occupancy(mdp, np.full((size, 3), 1 / 3))
    by_states = tabular.lobsdice_state(mdp, d_expert, d_offline, alpha=1e-3)
    by_pairs = tabular.lobsdice(mdp, d_expert, d_offline, alpha=1e-3)
    np.testing.assert_allclose(by_states.policy, 1 / 3, atol=1e-9)
    assert by_pairs.policy[:, 0].min() > 0.98


def test_algorithm_one_descends_to_the_same_policy_and_value():
    world = make_world(seed=2, density=1.0, gamma=0.6)
    arguments = (world.mdp, world.d_expert, world.d_offline)
    exact = tabular.lobsdice(*arguments, alpha=0.5)
    descent = tabular.gradient_descent(*arguments, alpha=0.5, learning_rate=0.5, steps=20_000)
    assert np.all(np.diff(descent.objective) <= 1e-12)
    np.testing.assert_allclose(-descent.objective[-1], exact.dual, atol=1e-6)
    np.testing.assert_allclose(descent.policy, exact.policy, atol=1e-3)


def test_the_single_sample_dual_is_exact_in_deterministic_mdps(injective):
    arguments = (injective.mdp, injective.d_expert, injective.d_offline)
    exact, sampled = tabular.lobsdice(*arguments), tabular.single_sample(*arguments)
    np.testing.assert_allclose(sampled.policy, exact.policy, atol=1e-6)
    np.testing.assert_allclose(sampled.primal, exact.primal, rtol=1e-9)


def test_the_single_sample_dual_is_biased_in_stochastic_mdps(world):
    """Its flow may choose s', so its optimum is lower, and its policy differs from the expert's."""
    arguments = (world.mdp, world.d_expert, world.d_offline)
    exact = tabular.lobsdice(*arguments, alpha=1e-3)
    sampled = tabular.single_sample(*arguments, alpha=1e-3)
    assert sampled.primal < 0.9 * exact.primal

    def distance(policy):
        own = pairs(world.mdp, tabular.occupancy(world.mdp, policy))
        return tabular.total_variation(own, world.d_expert)

    assert distance(exact.policy) < 0.01 < 0.05 < distance(sampled.policy)


def test_the_single_sample_minimum_is_that_of_the_networks_dual(world):
    """The function that networks minimise has the same minimum over a table of ν, by BFGS."""
    solution = tabular.single_sample(world.mdp, world.d_expert, world.d_offline, mix=0.0)
    p = jnp.asarray(world.d_offline[..., None] * world.mdp.transition).ravel()
    s, _, s_next = (i.ravel() for i in np.indices(world.mdp.transition.shape))
    r = jnp.asarray(log_ratio(world)[s, s_next])

    def objective(nu):
        e = duals.residual(r, nu[s], nu[s_next], world.mdp.gamma)
        settings = {
            "gamma": world.mdp.gamma,
            "alpha": 0.1,
            "p_init": jnp.asarray(world.mdp.initial),
        }
        return duals.dual(nu, e, p=p, **settings)

    start = np.zeros(world.mdp.states)
    found = minimize(jax.jit(jax.value_and_grad(objective)), start, jac=True, tol=1e-10)
    np.testing.assert_allclose(-found.fun, solution.dual, atol=1e-8)


def test_without_discount_the_answer_is_stationary_and_normalised():
    """Appendix J, against the conic solver."""
    world = make_world(seed=4, gamma=1.0)
    solution = tabular.lobsdice(world.mdp, world.d_expert, world.d_offline, alpha=ALPHA, mix=0.0)
    d = solution.occupancy
    np.testing.assert_allclose(d.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(d.sum(1), pairs(world.mdp, d).sum(0), atol=1e-12)

    def objective(d, pairs):
        return divergence(pairs, world.d_expert) + ALPHA * divergence(d, world.d_offline)

    value, _ = conic(world, objective)
    np.testing.assert_allclose(solution.primal, value, atol=1e-6)
    assert solution.converged and solution.gap < 1e-9


def test_without_discount_lambda_makes_the_papers_weights():
    world = make_world(seed=4, gamma=1.0)
    solution = tabular.lobsdice(world.mdp, world.d_expert, world.d_offline, alpha=ALPHA, mix=0.0)
    inner = -solution.mu - solution.nu[:, None] + solution.nu - solution.lam
    e = np.einsum("sat,st->sa", world.mdp.transition, inner)
    np.testing.assert_allclose(
        world.d_offline * np.exp(e / ALPHA - 1), solution.occupancy, atol=1e-8
    )


def iq_learn_critic(d_expert, initial, gamma, policy, tau=0.1, alpha=0.5):
    """The best Q[s,a] of state-only IQ-Learn for a policy, with (1-γ) E_p0[V] as value term.

    The reward is Q(s,a) - γ V(s'), and V(s) = E_π[Q(s,a) - τ log π(a|s)]; its square has the weight
    1/(4α).
    """

    def loss(flat):
        q = flat.reshape(policy.shape)
        v = jnp.sum(policy * (q - tau * jnp.log(policy)), axis=1)
        reward = q[:, :, None] - gamma * v[None, None, :]
        rows = jnp.asarray(d_expert)[:, None, :] * policy[:, :, None]
        value = (1 - gamma) * jnp.asarray(initial) @ v
        return value - jnp.sum(rows * (reward - reward**2 / (4 * alpha)))

    zero = jnp.zeros(policy.size)  # the loss is quadratic, so one Newton step is enough
    return -np.linalg.solve(jax.hessian(loss)(zero), jax.grad(loss)(zero)).reshape(policy.shape)


def test_the_two_value_terms_of_iq_learn_are_equal_only_if_the_experts_pairs_are_discounted(world):
    """E_dE[V(s) - γ V(s')] is (1-γ) E_p0[V] by the flow constraint, or (1-γ) E_dE[V] without it."""
    gamma, v = world.mdp.gamma, np.random.default_rng(0).normal(size=world.mdp.states)
    endless = tabular.MDP(world.mdp.transition, world.mdp.initial, 1.0)
    stationary = pairs(endless, tabular.occupancy(endless, world.expert))

    def of_pairs(d):
        return float(np.sum(d * (v[:, None] - gamma * v)))

    at_start = (1 - gamma) * world.mdp.initial @ v
    np.testing.assert_allclose(of_pairs(world.d_expert), at_start, rtol=1e-10)
    np.testing.assert_allclose(
        of_pairs(stationary), (1 - gamma) * stationary.sum(1) @ v, rtol=1e-10
    )
    assert abs(of_pairs(stationary) - at_start) > 1e-3


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_whatever_the_value_term_of_state_only_iq_learn_its_best_critic_ignores_the_action(gamma):
    """The expert's pairs are discounted or not, the value term is (1-γ) E_p0[V] with γ = 0.9."""
    world = make_world(gamma=gamma)
    q = iq_learn_critic(world.d_expert, world.mdp.initial, 0.9, world.behaviour)
    np.testing.assert_allclose(q, q[:, :1] * np.ones(3), atol=1e-9)
    assert np.ptp(q[:, 0]) > 0.01


@pytest.mark.parametrize(
    ("gamma", "of_1000_steps", "of_100_steps"),
    [(0.95, 0.826, 0.328), (0.99, 0.521, 0.092), (0.999, 0.099, 0.010)],
)
def test_with_rows_that_are_not_discounted_the_policy_is_too_early_or_too_late(
    gamma, of_1000_steps, of_100_steps
):
    """An expert who waits goes on with probability 0.1; the flow of the problem is discounted."""
    onward = tabular.MDP(np.eye(2)[[[0, 1], [1, 1]]], np.eye(2)[0], gamma)
    policies = np.array([[0.9, 0.1], [0.5, 0.5]]), np.full((2, 2), 0.5)  # the expert's, the logs'

    def uniform_rows(policy, steps):
        state, d = onward.initial, np.zeros((2, 2))
        for _ in range(steps):
            d = d + state[:, None] * policy / steps
            state = np.einsum("s,sa,sat->t", state, policy, onward.transition)
        return d

    def chance(rows):
        expert, logs = map(rows, policies)
        found = tabular.lobsdice(onward, pairs(onward, expert), logs, alpha=1e-4)
        assert found.converged and found.mix == 0
        return found.policy[0, 1]

    assert chance(lambda policy: tabular.occupancy(onward, policy)) == pytest.approx(0.1, abs=1e-4)
    found = [chance(lambda policy, n=n: uniform_rows(policy, n)) for n in (1000, 100)]
    np.testing.assert_allclose(found, [of_1000_steps, of_100_steps], atol=6e-4)
