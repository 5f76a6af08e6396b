"""States cannot tell the directions of a ring apart; pairs of states can."""

import numpy as np
import pytest

from lobsdice import tabular
from lobsdice.cli import main
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.circle import constant_policy, experiment, ring

RING = ring(12, 0.95)


def pairs_of(policy):
    return tabular.pair_occupancy(RING, tabular.occupancy(RING, policy))


EXPERT = pairs_of(constant_policy(12, 1.0))


def learn(method, counter_clockwise: float, alpha: float):
    d_offline = tabular.occupancy(RING, constant_policy(12, counter_clockwise))
    return method(RING, EXPERT, d_offline, alpha=alpha).policy[:, 0]


def test_both_directions_visit_all_states_alike():
    for share in (0.0, 0.3, 1.0):
        assert np.allclose(pairs_of(constant_policy(12, share)).sum(1), 1 / 12)


def test_opposite_directions_share_no_pair():
    clockwise = pairs_of(constant_policy(12, 0.0))
    assert tabular.total_variation(clockwise, EXPERT) == pytest.approx(1)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
def test_matching_states_keeps_the_direction_of_the_data(share):
    for alpha in (0.1, 1e-3):
        assert np.allclose(learn(tabular.lobsdice_state, share, alpha), share, atol=1e-6)


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_matching_pairs_recovers_the_expert(share):
    np.testing.assert_allclose(learn(tabular.lobsdice, share, 1e-3), 1, rtol=1e-12)


def test_the_command_writes_a_table_and_a_figure(tmp_path):
    assert main(["experiment", "circle", "-o", str(tmp_path)]) == 0
    lines = (tmp_path / "circle.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 3 * 12
    assert (tmp_path / "circle.png").exists()
    assert "</svg>" in (tmp_path / "circle.svg").read_text()


def test_a_ring_of_two_has_no_directions(tmp_path):
    with pytest.raises(LobsDICEError, match="at least 3 states"):
        experiment(tmp_path, states=2, gamma=0.95, alpha=0.1)
