"""The programs of docs/deploy.md that run a policy: in C, and in a ROS 2 node."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from made_runs import make_policy

from lobsdice.data.spaces import Box
from lobsdice.policies.onnx import export_onnx
from lobsdice.policies.policy import Policy

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"
OBSERVATION = np.array([0.25, -1.5, 3.0], np.float32)
HEADERS = (Path("/usr/include/onnxruntime"), Path("/usr/local/include/onnxruntime"))
MISSING = "the test in C needs gcc and the header of ONNX Runtime: .ci/run installs both"


def block(language: str) -> str:
    (code,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return code


@pytest.fixture
def policy(tmp_path) -> Policy:
    made = make_policy(Box.of([-1, 0], [1, 5]))
    export_onnx(made, tmp_path / "policy.onnx", np.zeros((1, 3)))
    return made


def test_the_program_in_c_acts_like_the_policy(tmp_path, policy):
    include = next((folder for folder in HEADERS if folder.is_dir()), None)
    if include is None or shutil.which("gcc") is None:
        pytest.fail(MISSING)
    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):  # as a system that has it would
        (tmp_path / name).symlink_to(library)
    (tmp_path / "run.c").write_text(block("c"))
    search = [f"-I{include}", f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}"]
    build = ["gcc", "-Wall", "-Werror", *search, "run.c", "-lonnxruntime", "-o", "run"]
    subprocess.run(build, cwd=tmp_path, check=True)
    words = [tmp_path / "run", "policy.onnx", *map(str, OBSERVATION)]
    result = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    action = [float(line) for line in result.stdout.splitlines()]
    np.testing.assert_allclose(action, np.asarray(policy(OBSERVATION), float), atol=1e-5)
    words[1] = "nothing.onnx"
    result = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1 and "nothing.onnx" in result.stderr


class Message(SimpleNamespace):
    """Stands in for std_msgs.msg.Float32MultiArray: ROS 2 cannot be installed from PyPI."""


def test_the_node_of_ros_2_acts_like_the_policy(tmp_path, policy, monkeypatch):
    published, received = {}, {}
    node = SimpleNamespace(
        create_publisher=lambda kind, topic, depth: SimpleNamespace(
            publish=lambda message: published.update({topic: message})
        ),
        create_subscription=lambda kind, topic, act, depth: received.update({topic: act}),
    )
    ros, messages = ModuleType("rclpy"), ModuleType("std_msgs.msg")
    ros.__dict__.update(
        init=lambda: None,
        create_node=lambda name: node,
        spin=lambda node: received["observation"](Message(data=OBSERVATION.tolist())),
    )
    messages.__dict__["Float32MultiArray"] = Message
    for name, module in {
        "rclpy": ros,
        "std_msgs": ModuleType("std_msgs"),
        "std_msgs.msg": messages,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    (tmp_path / "node.py").write_text(block("py"))
    monkeypatch.chdir(tmp_path)
    runpy.run_path("node.py")
    np.testing.assert_allclose(
        published["action"].data, np.asarray(policy(OBSERVATION), float), atol=1e-5
    )
