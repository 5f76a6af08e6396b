"""A run folder from a stranger executes nothing and sends nothing by itself."""

import json
import sys
from pathlib import Path

import pytest
from made_runs import make_policy, make_run
from worlds import noise

from lobsdice.data.formats import write
from lobsdice.data.spaces import Box
from lobsdice.training.folder import CONFIG

MODULE, ENV = "a_strangers_module", "a_strangers_module:Theirs-v0"
ENVIRONMENT = """
import gymnasium, numpy

class Theirs(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Box(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        return numpy.zeros(3), {}

    def step(self, action):
        return numpy.zeros(3), 1.0, True, False, {}

gymnasium.register("Theirs-v0", entry_point=Theirs)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that can be imported, with an environment."""
    (tmp_path / f"{MODULE}.py").write_text(ENVIRONMENT)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(MODULE, None)


def change_settings(folder: Path, **settings) -> None:
    config = json.loads((folder / CONFIG).read_text())
    config["about"]["settings"] |= settings
    (folder / CONFIG).write_text(json.dumps(config))


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("setting", ["env", "task"])
def test_a_run_folder_imports_no_module(lobsdice, tmp_path, setting):
    folder = make_run(tmp_path / "run", [make_policy(Box.of([-1, -1], [1, 1]))], **{setting: ENV})
    for command in (["evaluate"], ["resume"], ["play", "--video", tmp_path / "p.gif"]):
        result = lobsdice(*command, folder)
        assert result.code == 2
        assert f"only if you name it yourself: --env {ENV}" in result.err
    assert lobsdice("report", folder, "--no-audit", "-o", tmp_path / "r.html").code == 0
    assert "only if you name it yourself" in (tmp_path / "r.html").read_text()
    assert MODULE not in sys.modules


@pytest.mark.usefixtures("module")
def test_the_users_own_words_import_a_module(lobsdice, tmp_path):
    folder = make_run(tmp_path / "run", [make_policy(Box.of([-1, -1], [1, 1]))])
    result = lobsdice("evaluate", folder, "--env", ENV, "--episodes", 2, "--json")
    assert json.loads(result.out)[0]["return"] == 1


@pytest.mark.usefixtures("module")
def test_a_resumed_run_logs_only_to_what_is_named_again(lobsdice, tmp_path, monkeypatch):
    write(tmp_path / "demos.npz", noise(40, seed=1).without_actions())
    write(tmp_path / "logs.npz", noise(80, seed=0))
    data = ["--expert", tmp_path / "demos.npz", "--offline", tmp_path / "logs.npz"]
    sizes = ["--width", 8, "--batch-size", 8, "--steps", 4, "--every", 4, "--episodes", 1]
    folder = tmp_path / "run"
    result = lobsdice("train", "bc", *data, *sizes, "--env", ENV, "--out", folder)
    assert result.code == 0, result.err
    change_settings(folder, tensorboard=True, wandb="theirs")
    for name in ("wandb", "tensorboardX.event_file_writer"):  # to need a log is an error now
        monkeypatch.setitem(sys.modules, name, None)
    result = lobsdice("resume", folder, "--env", ENV)
    assert result.code == 0, result.err
    assert "which had --tensorboard --wandb theirs" in result.err
    for option in (["--wandb", "mine"], ["--tensorboard"]):
        assert "this log needs" in lobsdice("resume", folder, "--env", ENV, *option).err
    result = lobsdice("resume", folder, "--env", "CartPole-v1")
    assert result.code == 2 and f"is evaluated in {ENV}, not in CartPole-v1" in result.err
    assert MODULE in sys.modules


def test_a_task_and_an_environment_cannot_both_be_named(lobsdice, tmp_path):
    words = ("--task", "reach", "--env", "Hopper-v5", "--out", tmp_path / "run")
    result = lobsdice("train", "lobsdice", *words)
    assert result.code == 2
    assert "reach has its own environment; leave --env out" in result.err
    assert not (tmp_path / "run").exists()
