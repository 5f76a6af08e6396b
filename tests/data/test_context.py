"""Features that never change in an episode, and the noise with which discriminators see them."""

import numpy as np
import pytest

from lobsdice.data.context import blur, constant_in_episodes, describe_blur, kernel_width
from lobsdice.data.episodes import Episodes
from lobsdice.data.prepare import prepare


def episodes(seed: int, count: int = 4, length: int = 6) -> Episodes:
    """Episodes with a feature that changes, a goal, a constant, and one that changes at the end."""
    rng = np.random.default_rng(seed)
    tables = []
    for _ in range(count):
        x = np.stack(
            [
                rng.normal(size=length + 1),
                np.full(length + 1, rng.normal()),
                np.full(length + 1, 3.0),
                np.full(length + 1, rng.normal()),
            ],
            axis=1,
        )
        x[-1, 3] += 1
        tables.append(x)
    return Episodes.from_arrays(
        np.concatenate(tables),
        lengths=[length] * count,
        actions=rng.uniform(-1, 1, (count * length, 1)),
        observation_names=["x", "goal", "gravity", "late"],
    )


def test_only_features_that_never_change_within_any_episode_are_constant_in_episodes():
    assert constant_in_episodes(episodes(0)).tolist() == [False, True, True, False]


def test_one_episode_in_which_a_feature_changes_is_enough():
    moved = episodes(0)
    moved.observations[-1, 1] += 1
    assert constant_in_episodes(moved).tolist() == [False, False, True, False]
    assert blur(episodes(1), moved) is None


def test_a_feature_that_is_the_same_in_all_episodes_is_not_blurred():
    found = blur(episodes(1, count=5), episodes(0))
    assert found is not None
    assert found.tolist() == pytest.approx([0, kernel_width(5, 1), 0, 0])


def test_the_width_for_one_feature_is_silvermans_rule_of_thumb():
    # (4/3)^(1/5) n^(-1/5), Silverman (1986), eq. 3.28
    assert kernel_width(100, 1) == pytest.approx(1.0592 * 100**-0.2, rel=1e-4)


def test_more_demonstrations_and_fewer_features_are_blurred_less():
    assert kernel_width(50, 1) < kernel_width(5, 1) < kernel_width(5, 3) < 1


def test_prepared_data_knows_the_blur_and_says_so():
    data = prepare(episodes(1, count=5), episodes(0))
    assert data.blur is not None
    said = describe_blur(data.blur, data.normaliser.names)
    assert said is not None and said.startswith("goal never changes in an episode")
    assert describe_blur(None, ()) is None
