import json
from dataclasses import replace

import numpy as np
import pytest

from lobsdice.data.description import describe
from lobsdice.data.episodes import Episodes, mixture


def test_a_description_counts_and_measures(episodes):
    found = describe(episodes)
    assert (found["episodes"], found["steps"], found["state_size"]) == (3, 8, 3)
    assert (found["terminated"], found["truncated"]) == (1, 2)
    assert found["succeeded"] is found["failed"] is None
    assert found["lengths"]["min"] == 1 and found["lengths"]["max"] == 4
    assert found["lengths"]["mean"] == pytest.approx(8 / 3)
    assert found["actions"]["low"] == [-1, -1] and found["actions"]["size"] == 2
    assert found["returns"]["max"] == pytest.approx(episodes.returns().max())
    assert found["sources"] is None


def test_features_are_measured_in_double_precision(episodes):
    shifted = replace(episodes, observations=episodes.observations + np.float32(4096))
    found = describe(shifted)["observations"]
    exact = shifted.observations.astype(np.float64)
    for name in ("min", "mean", "max", "std"):
        np.testing.assert_allclose(found[name], getattr(np, name)(exact, axis=0), rtol=1e-12)


def test_state_only_and_discrete_and_mixed_sets_are_described(episodes):
    alone = describe(episodes.without_actions())
    assert alone["actions"] is None
    discrete = Episodes.from_arrays(np.ones((4, 1)), lengths=[3], actions=np.array([0, 2, 2]))
    assert describe(discrete)["actions"] == {
        "kind": "discrete",
        "count": 3,
        "taken": {"0": 1, "2": 2},
    }
    assert describe(discrete)["returns"] is None
    both = mixture({"expert": episodes, "random": episodes.first(1)})
    assert describe(both)["sources"] == {"expert": 3, "random": 1}


def test_successes_and_failures_are_counted(episodes):
    found = describe(replace(episodes, success=np.array([-1, 1, 0])))
    assert (found["succeeded"], found["failed"]) == (1, 1)


def test_a_description_is_json(episodes):
    assert json.loads(json.dumps(describe(episodes))) == describe(episodes)
