"""A policy that learned from actions with names answers with names."""

import json
import runpy

import numpy as np
import onnx
import onnxruntime
import pytest

from lobsdice.data.normaliser import Normaliser
from lobsdice.data.spaces import Box, Discrete
from lobsdice.errors import LobsDICEError
from lobsdice.policies.numpy import export_numpy
from lobsdice.policies.onnx import export_onnx
from lobsdice.policies.policy import Policy, load_policy

NAMES = ("left", 'say "größe"', "right")


@pytest.fixture
def policy() -> Policy:
    """It goes left below 0, right above 1, and says something between."""
    weights, biases = np.array([[-2.0, 0.0, 1.0]], np.float32), np.array([0, 0.5, 0], np.float32)
    normaliser = Normaliser(np.zeros(1, np.float32), np.ones(1, np.float32), ("x",))
    return Policy((weights,), (biases,), normaliser, Discrete(3, NAMES))


STATES = np.array([[-1.0], [0.1], [2.0]], np.float32)


def test_it_answers_with_a_name_and_acts_with_a_number(policy):
    assert policy(STATES[0]) == "left" and policy(STATES).tolist() == list(NAMES)
    assert policy.predict(STATES[2])[0] == "right"
    assert policy.act(STATES).tolist() == [0, 1, 2]
    assert {*policy(np.zeros((200, 1)), np.random.default_rng(0))} == {*NAMES}


def test_names_survive_the_file(policy, tmp_path):
    policy.save(tmp_path / "mine.policy")
    assert load_policy(tmp_path / "mine.policy")(STATES).tolist() == list(NAMES)


def test_the_numpy_file_answers_with_names(policy, tmp_path):
    export_numpy(policy, tmp_path / "policy.py", STATES)
    predict = runpy.run_path(str(tmp_path / "policy.py"))["predict"]
    assert predict(STATES).tolist() == list(NAMES) and predict(STATES[0]) == "left"


def test_the_graph_answers_with_numbers_and_has_the_names(policy, tmp_path):
    export_onnx(policy, tmp_path / "policy.onnx", STATES)
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    (numbers,) = session.run(["action"], {"observation": STATES})
    model = onnx.load(tmp_path / "policy.onnx")
    found = json.loads({p.key: p.value for p in model.metadata_props}["action_space"])
    assert [found["names"][i] for i in np.asarray(numbers)] == list(NAMES)


def test_names_of_columns_are_in_the_metadata(policy, tmp_path):
    box = Box((-1.0,), (1.0,), names=("torque",))
    weights = np.ones((1, 2), np.float32)
    boxed = Policy((weights,), (np.zeros(2, np.float32),), policy.normaliser, box)
    export_onnx(boxed, tmp_path / "policy.onnx", STATES)
    model = onnx.load(tmp_path / "policy.onnx")
    found = json.loads({p.key: p.value for p in model.metadata_props}["action_space"])
    assert found == {"low": [-1.0], "high": [1.0], "names": ["torque"]}
    boxed.save(tmp_path / "mine.policy")
    assert load_policy(tmp_path / "mine.policy").action_space.names == ("torque",)


@pytest.mark.parametrize("names", [("a",), ("a", "a"), ("a", "b", "c")])
def test_names_that_do_not_fit_are_refused(names):
    with pytest.raises(LobsDICEError, match=r"names of actions|the same name"):
        Discrete(2, names)
