import numpy as np
import pytest

from lobsdice.experiments.random_mdp.mdps import Instance, Skeleton, draw_skeleton, make_instances
from lobsdice.tabular import (
    occupancy,
    optimal_action_value,
    pair_occupancy,
    softmax,
    total_variation,
    value,
)

BETAS = (0.01, 0.1, 1.0)


def skeletons(count: int = 6) -> list[Skeleton]:
    return [draw_skeleton(np.random.default_rng(seed), 20, 4) for seed in range(count)]


@pytest.fixture(scope="module", params=BETAS)
def made(request) -> Instance:
    return make_instances(skeletons(), request.param, gamma=0.95, optimality=0.9)


def test_every_state_and_action_has_four_successors(made):
    assert np.all((made.mdp.transition > 0).sum(-1) == 4)
    assert np.allclose(made.mdp.transition.sum(-1), 1)


def test_beta_zero_is_deterministic_and_one_is_the_dirichlet():
    draws = skeletons()
    certain = make_instances(draws, 0.0, gamma=0.95, optimality=0.9)
    assert np.all(certain.probabilities.max(-1) == 1)
    loose = make_instances(draws, 1.0, gamma=0.95, optimality=0.9)
    assert np.array_equal(loose.probabilities, np.stack([one.dirichlet for one in draws]))


def test_the_rewarded_state_minimises_the_optimal_value_of_the_start(made):
    def best(reward):
        return optimal_action_value(made.mdp, reward)[:, 0].max(-1)

    at_each = [np.broadcast_to(np.eye(20)[s][:, None], made.reward.shape) for s in range(20)]
    assert np.allclose(best(made.reward), np.min([best(reward) for reward in at_each], axis=0))
    assert np.all(made.reward.sum((1, 2)) == 4)


def test_the_expert_has_the_asked_optimality(made):
    best = optimal_action_value(made.mdp, made.reward)[:, 0].max(-1)
    uniform = value(made.mdp, np.full(made.expert.shape, 0.25), made.reward)[:, 0]
    share = (value(made.mdp, made.expert, made.reward)[:, 0] - uniform) / (best - uniform)
    assert np.allclose(share, 0.9, atol=1e-9)


def test_the_expert_is_a_softmax_of_the_optimal_values(made):
    q = optimal_action_value(made.mdp, made.reward)
    likely = made.expert > 1e-3  # the logarithms of the others are inexact
    logs = np.where(
        likely, np.log(np.where(likely, made.expert, 1) / made.expert.max(-1)[..., None]), 0
    )
    gaps = np.where(likely, q - q.max(-1)[..., None], 0)
    temperature = (gaps.sum((1, 2)) / logs.sum((1, 2)))[:, None, None]
    assert np.allclose(softmax(q, temperature), made.expert, atol=1e-6)


def test_the_expert_is_far_from_the_uniform_policy(made):
    uniform = np.full(made.expert.shape, 0.25)
    pairs = pair_occupancy(made.mdp, occupancy(made.mdp, uniform))
    assert np.all(total_variation(pairs, made.d_expert) > 0.3)
