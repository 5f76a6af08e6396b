"""The contract beside an exported policy."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from made_runs import make_policy

from lobsdice import __version__
from lobsdice.data.episodes import Episodes
from lobsdice.data.normaliser import Normaliser
from lobsdice.data.spaces import Box, Discrete
from lobsdice.errors import LobsDICEError
from lobsdice.policies.agreement import likely_observations
from lobsdice.policies.numpy import export_numpy
from lobsdice.policies.onnx import export_onnx
from lobsdice.policies.policy import Policy

MOMENTS = (np.array([1, -2, 30], np.float32), np.array([2, 1, 0.5], np.float32))


def named(policy: Policy) -> Policy:
    return replace(policy, normaliser=Normaliser(*MOMENTS, ("x [mm]", "speed (m/s)", "größe")))


BOX = named(make_policy(Box.of([-2.0, 0.5], [2.0, 10.0], ["torque", "grip [N]"])))


def sha256(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()


def test_it_has_names_units_order_bounds_rate_versions_and_checksums(tmp_path):
    rows = likely_observations(BOX, 10)
    export_onnx(BOX, tmp_path / "policy.onnx", rows, units={"größe": "m"}, rate=50)
    export_numpy(BOX, tmp_path / "policy.py", rows, units={"größe": "m"}, rate=50)
    found = json.loads((tmp_path / "policy_contract.json").read_text(encoding="utf-8"))
    assert found.pop("versions")["lobsdice"] == __version__
    assert found.pop("files") == {
        name: sha256((tmp_path / name).read_bytes()) for name in ("policy.onnx", "policy.py")
    }
    assert found == {
        "layout": 1,
        "observation": {
            "type": "float32",
            "components": [
                {"place": 0, "name": "x [mm]", "unit": "mm", "mean": 1.0, "deviation": 2.0},
                {"place": 1, "name": "speed (m/s)", "unit": "m/s", "mean": -2, "deviation": 1},
                {"place": 2, "name": "größe", "unit": "m", "mean": 30.0, "deviation": 0.5},
            ],
        },
        "action": {
            "type": "float32",
            "kind": "continuous",
            "components": [
                {"place": 0, "name": "torque", "unit": None, "low": -2.0, "high": 2.0},
                {"place": 1, "name": "grip [N]", "unit": "N", "low": 0.5, "high": 10.0},
            ],
        },
        "rate_hz": 50,
        "policy": sha256(BOX.to_bytes()),
    }


def test_what_is_not_known_is_null(tmp_path):
    policy = make_policy(Discrete(4))
    export_onnx(policy, tmp_path / "p.onnx", likely_observations(policy, 10))
    found = json.loads((tmp_path / "p_contract.json").read_text())
    assert found["action"] == {"type": "int64", "kind": "discrete", "count": 4, "names": None}
    assert found["rate_hz"] is None and found["observation"]["components"][0]["name"] is None


def test_names_of_discrete_actions_are_in_it(tmp_path):
    policy = make_policy(Discrete(2, ("left", "right")))
    export_onnx(policy, tmp_path / "p.onnx", likely_observations(policy, 10))
    found = json.loads((tmp_path / "p_contract.json").read_text())
    assert found["action"]["names"] == ["left", "right"]


def test_another_policy_takes_the_contract_over(tmp_path):
    """Even where what lies there is no contract at all."""
    (tmp_path / "p_contract.json").write_text("[")
    for policy, suffix in ((BOX, "onnx"), (named(make_policy(Discrete(3))), "again.onnx")):
        export_onnx(policy, tmp_path / f"p.{suffix}", likely_observations(policy, 10))
    export_onnx(make_policy(Discrete(3)), tmp_path / "p.onnx", np.zeros((1, 3)))
    found = json.loads((tmp_path / "p_contract.json").read_text())
    assert list(found["files"]) == ["p.onnx"] and found["action"]["count"] == 3


def test_a_second_export_keeps_units_and_rate_unless_others_are_given(tmp_path):
    rows = likely_observations(BOX, 10)
    export_onnx(BOX, tmp_path / "p.onnx", rows, units={"größe": "m", "x [mm]": "m"}, rate=50)
    first = json.loads((tmp_path / "p_contract.json").read_text(encoding="utf-8"))
    export_numpy(BOX, tmp_path / "p.py", rows)
    second = json.loads((tmp_path / "p_contract.json").read_text(encoding="utf-8"))
    assert len(second.pop("files")) == 2 and len(first.pop("files")) == 1
    assert second == first
    export_numpy(BOX, tmp_path / "p.py", rows, units={"größe": "cm"}, rate=20)
    third = json.loads((tmp_path / "p_contract.json").read_text(encoding="utf-8"))
    units = [part["unit"] for part in third["observation"]["components"]]
    assert units == ["m", "m/s", "cm"] and third["rate_hz"] == 20


def test_another_policy_does_not_take_over_units_and_rate(tmp_path):
    other = named(make_policy(Discrete(3)))
    export_onnx(BOX, tmp_path / "p.onnx", likely_observations(BOX, 10), rate=50)
    export_onnx(other, tmp_path / "p.onnx", likely_observations(other, 10))
    assert json.loads((tmp_path / "p_contract.json").read_text())["rate_hz"] is None


def test_episodes_may_be_given_to_check_a_file_and_other_values_are_a_sentence(tmp_path):
    episodes = Episodes.from_arrays(likely_observations(BOX, 11), lengths=[10])
    assert export_numpy(BOX, tmp_path / "p.py", episodes) < 1e-5
    with pytest.raises(LobsDICEError, match="are a value of type object; give episodes, or an"):
        export_onnx(BOX, tmp_path / "p.onnx", object())


@pytest.mark.parametrize(
    "facts, words",
    [
        ({"units": {"y": "m"}}, "'y', which is no name of the policy; its names are: grip"),
        ({"rate": 0.0}, "`rate` is 0.0; it must be a positive number"),
        ({"rate": float("nan")}, "`rate` is nan"),
    ],
)
def test_wrong_facts_are_a_sentence_and_nothing_is_written(tmp_path, facts, words):
    with pytest.raises(LobsDICEError, match=words):
        export_onnx(BOX, tmp_path / "p.onnx", likely_observations(BOX, 10), **facts)
    assert not list(tmp_path.iterdir())
