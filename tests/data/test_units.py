"""Units that differ between demonstrations and logs are found, and other differences are not."""

from dataclasses import replace

import numpy as np
import pytest

from lobsdice.data.episodes import Episodes, mixture
from lobsdice.data.recordings import Preparation
from lobsdice.data.units import different_units
from lobsdice.errors import DataWarning


def drives(count: int, seed: int, speed: float = 1.0) -> Episodes:
    """Episodes that begin anywhere and go somewhere: place, angle, and a column of zeros."""
    random = np.random.default_rng(seed)
    place = random.normal(size=(count, 1, 2)) + speed * np.cumsum(
        random.normal(size=(count, 31, 2)), axis=1
    )
    rows = np.concatenate([place, np.zeros((count, 31, 1))], axis=2)
    return Episodes.from_arrays(
        rows.reshape(-1, 3),
        lengths=[30] * count,
        actions=random.uniform(-1, 1, (count * 30, 1)),
        observation_names=("x", "angle", "load"),
    )


def scaled(episodes: Episodes, column: int, factor: float) -> Episodes:
    rows = episodes.observations.copy()
    rows[:, column] *= factor
    return replace(episodes, observations=rows)


EXPERT, LOGS = drives(5, seed=1), drives(60, seed=2)


@pytest.mark.parametrize("factor, units", [(1000, "millimetres and metres"), (57.3, "degrees")])
def test_a_factor_between_the_files_is_named_in_both_directions(factor, units):
    (large,) = different_units(EXPERT, scaled(LOGS, 0, factor))
    assert large.features == ("x",) and factor / 2 < large.factors[0] < 2 * factor
    assert large.large == "the logs" and units in large.remark
    (small,) = different_units(EXPERT, scaled(LOGS, 0, 1 / factor))
    assert small.large == "the demonstrations" and units in small.remark


@pytest.mark.parametrize("speed", [0.05, 1.0, 20.0])
def test_slow_or_wild_logs_among_others_are_no_other_units(speed):
    some = drives(6, seed=3, speed=speed)
    logs = mixture({"usual": LOGS, "others": some})
    together = replace(logs, source=None, source_names=(), valid=True)
    assert different_units(EXPERT, together) == []


def test_one_file_among_several_is_named():
    logs = mixture({"monday": LOGS, "friday": scaled(drives(20, seed=4), 1, 100)})
    (found,) = different_units(EXPERT, logs)
    assert found.large == "friday" and found.features == ("angle",)


def test_preparing_recordings_warns_of_units():
    words = "features x, angle are about .* times as large in the logs as in the demonstrations"
    with pytest.warns(DataWarning, match=words):
        Preparation()(EXPERT, scaled(scaled(LOGS, 0, 1000), 1, 1000))
