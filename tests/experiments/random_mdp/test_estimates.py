import numpy as np

from lobsdice.experiments.random_mdp.estimates import problems
from lobsdice.experiments.random_mdp.settings import Settings

TOY = Settings(offlines=(1, 1000), experts=(10, 1000), horizon=60, states=12, actions=2, gamma=0.9)


def test_a_seed_has_the_same_data_in_any_company():
    alone, among = problems([3], 0.1, TOY), problems([1, 2, 3], 0.1, TOY)
    for one, many in zip(alone[1:], among[1:], strict=True):
        assert np.array_equal(one[0], many[2])
    assert np.array_equal(alone.truth.expert[0], among.truth.expert[2])


def test_estimates_are_distributions_and_counts_are_whole():
    found = problems([0, 1], 1.0, TOY)
    assert np.allclose(found.d_offline.sum((2, 3)), 1)
    assert np.allclose(found.d_expert.sum((2, 3)), 1)
    assert np.array_equal(found.counts, np.round(found.counts))
    assert np.all(found.counts.sum((2, 3, 4)) == 60 * np.array(TOY.offlines))
