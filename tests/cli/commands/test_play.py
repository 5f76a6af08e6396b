"""`lobsdice play`: the episodes that `evaluate` measures, as a video or in a window."""

import importlib.util
import json
import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from made_runs import make_policy, make_run
from PIL import Image

from lobsdice.data.spaces import Box, Discrete
from lobsdice.environments.evaluate import evaluate
from lobsdice.environments.play import open_environment

#: NumPy makes the frames, so that it works on every machine.
DRAWN = "DrawnByNumPy-v0"
STEPS = 20


class Drawn(gymnasium.Env):
    """An environment of 20 steps. The brightness of a frame is the step, its colour the action."""

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 50}  # noqa: RUF012
    observation_space = spaces.Box(-1, 1, (3,))
    action_space = spaces.Discrete(2)
    windows = 0

    def __init__(self, render_mode=None, **_):
        self.render_mode, self.steps, self.action = render_mode, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def step(self, action):
        self.steps, self.action = self.steps + 1, action
        Drawn.windows += self.render_mode == "human"
        state = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return state, float(action), False, self.steps == STEPS, {}

    def render(self):
        if self.render_mode != "rgb_array":
            return None
        frame = np.full((16, 16, 3), 10 * self.steps, np.uint8)
        frame[8:, :, int(self.action)] = 255
        return frame


@pytest.fixture(scope="module", autouse=True)
def drawn():
    gymnasium.register(DRAWN, entry_point=Drawn)
    yield
    del gymnasium.registry[DRAWN]


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    """Remove the display, as on a server, and restore what `play` sets."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MUJOCO_GL", os.environ.get("MUJOCO_GL", "egl"))


@pytest.fixture
def folder(tmp_path):
    return make_run(tmp_path / "run", [make_policy(Discrete(2))], env=DRAWN)


def frames(path) -> tuple[list[np.ndarray], float]:
    """Return the frames of a GIF, and their total duration in milliseconds."""
    with Image.open(path) as image:
        found, duration = [], 0.0
        for i in range(getattr(image, "n_frames", 1)):
            image.seek(i)
            found.append(np.asarray(image.convert("RGB")))
            duration += image.info["duration"]
    return found, duration


def test_a_video_shows_the_episodes_that_are_measured(lobsdice, tmp_path, folder):
    video = tmp_path / "new" / "p.gif"
    result = lobsdice("play", folder, "--episodes", "2", "--seed", "3", "--video", video)
    assert result.code == 0, result.err
    wanted = evaluate([make_policy(Discrete(2))], DRAWN, episodes=2, seed=3, workers=1)[0]
    assert result.out.splitlines() == [
        *(f"episode {i}: return {value:.1f}" for i, value in enumerate(wanted)),
        f"wrote {video}",
    ]
    found, duration = frames(video)
    # Two episodes of 20 steps of 20 ms: every second frame is kept, and the last.
    assert len(found) == STEPS + 1 and duration == 40 * (STEPS + 1)
    brightness = [int(frame[0, 0].mean()) for frame in found]
    once = [20 * i for i in range(STEPS // 2)]
    np.testing.assert_allclose(brightness, [*once, *once, 10 * STEPS], atol=6)


def test_stochastic_actions_differ(lobsdice, tmp_path, folder):
    def found(*words: str) -> list[float]:
        video = tmp_path / f"{len(words)}.gif"
        result = lobsdice("play", folder, "--episodes", "5", "--video", video, "--json", *words)
        return json.loads(result.out)["returns"]

    assert found() != found("--stochastic")


def test_a_window_opens_without_a_video(lobsdice, monkeypatch, folder):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(Drawn, "windows", 0)
    result = lobsdice("play", folder, "--env", DRAWN)
    assert result.code == 0 and result.out.startswith("episode 0: return ")
    assert Drawn.windows == STEPS


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no displays to name")
@pytest.mark.parametrize("display", [None, ":987"], ids=["none", "one that is not there"])
def test_without_a_display_there_is_no_window(lobsdice, monkeypatch, tmp_path, display):
    if display is not None:
        monkeypatch.setenv("DISPLAY", display)
    folder = make_run(tmp_path / "run", [make_policy(Box.of([-1] * 3, [1] * 3), width=11)])
    result = lobsdice("play", folder, "--env", "hopper")
    assert (result.code, result.err) == (
        2,
        "error: there is no display to open a window on; --video FILE records instead\n",
    )


def test_a_video_is_replaced_only_with_force(lobsdice, tmp_path, folder):
    video = tmp_path / "p.gif"
    video.write_text("mine")
    result = lobsdice("play", folder, "--video", video)
    assert result.code == 2 and "exists; --force replaces it" in result.err
    assert video.read_text() == "mine"
    assert lobsdice("play", folder, "--video", video, "--force").code == 0
    assert video.read_bytes()[:3] == b"GIF"


def refused(lobsdice, tmp_path, folder, *words) -> str:
    before = set(tmp_path.iterdir())
    result = lobsdice("play", folder, *words)
    assert result.code == 2 and len(result.err.splitlines()) == 1, result.err
    assert set(tmp_path.iterdir()) == before
    return result.err


def test_a_wrong_request_is_one_line(lobsdice, tmp_path, folder):
    gif = ("--video", tmp_path / "p.gif")
    assert "videos end in .gif or .mp4" in refused(
        lobsdice, tmp_path, folder, "--video", tmp_path / "p.avi"
    )
    assert "cannot evaluate 0 episodes" in refused(
        lobsdice, tmp_path, folder, "--episodes", "0", *gif
    )
    assert "Gymnasium cannot make" in refused(lobsdice, tmp_path, folder, "--env", "No-v0", *gif)
    other = make_run(tmp_path / "box", [make_policy(Box.of([-1], [1]))], env=DRAWN)
    assert "the policy's actions are not those of" in refused(lobsdice, tmp_path, other, *gif)
    wide = make_run(tmp_path / "wide", [make_policy(Discrete(2), width=4)], env=DRAWN)
    assert "takes observations of 4 numbers" in refused(lobsdice, tmp_path, wide, *gif)
    nowhere = make_run(tmp_path / "nowhere", [make_policy(Discrete(2))])
    assert "name the environment with --env" in refused(lobsdice, tmp_path, nowhere, *gif)


@pytest.mark.skipif(
    importlib.util.find_spec("pygame") is not None, reason="pygame draws this environment"
)
def test_an_environment_that_cannot_be_rendered_is_one_line(lobsdice, tmp_path):
    folder = make_run(tmp_path / "run", [make_policy(Discrete(2), width=4)])
    words = ("--env", "CartPole-v1", "--video", tmp_path / "p.gif")
    assert "CartPole-v1 cannot be drawn here: pygame is not installed" in refused(
        lobsdice, tmp_path, folder, *words
    )


def test_an_mp4_is_written_or_the_error_says_how_to_get_it(lobsdice, tmp_path, folder):
    video = tmp_path / "p.mp4"
    if importlib.util.find_spec("imageio_ffmpeg") is None:
        error = refused(lobsdice, tmp_path, folder, "--video", video)
        assert "pip install imageio-ffmpeg, or record a .gif" in error
    else:
        assert lobsdice("play", folder, "--video", video).code == 0
        assert video.read_bytes()[4:8] == b"ftyp"


def can_draw_mujoco() -> bool:
    """True if MuJoCo renders on this machine; a failure may end the process that tries."""
    code = (
        "import gymnasium; env = gymnasium.make('Hopper-v5', render_mode='rgb_array'); "
        "env.reset(); env.render()"
    )
    environment = {"MUJOCO_GL": "egl", **os.environ}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    return result.returncode == 0


def shows_the_hopper(frame: np.ndarray) -> bool:
    red, _, blue = (frame[..., i].astype(int) for i in range(3))
    return int((red - blue > 60).sum()) > 1000  # the hopper is orange, everything else is grey


def test_mujoco_renders_a_hopper_that_stays_in_the_picture(lobsdice, tmp_path):
    if not can_draw_mujoco():
        pytest.skip("MuJoCo cannot draw here")
    folder = make_run(tmp_path / "run", [make_policy(Box.of([-1] * 3, [1] * 3), width=11)])
    for i in range(2):  # a second environment of the process renders too
        video = tmp_path / f"{i}.gif"
        result = lobsdice("play", folder, "--env", "Hopper-v5", "--video", video)
        assert result.code == 0, result.err
        found, _ = frames(video)
        assert len(found) > 2 and all(map(shows_the_hopper, found))
    env = open_environment("Hopper-v5", tmp_path / "p.gif")
    walker = env.unwrapped
    walker.set_state(walker.data.qpos + np.eye(6)[0] * 10, walker.data.qvel)
    assert shows_the_hopper(env.render())
    env.close()
