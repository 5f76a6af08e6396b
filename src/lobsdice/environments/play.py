"""Watching a policy act: in a window, or as a video."""

import importlib
import importlib.util
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from lobsdice.data.files import atomic
from lobsdice.environments.evaluate import check_actions, episode_seeds
from lobsdice.environments.gym import make, returns
from lobsdice.errors import LobsDICEError, require
from lobsdice.policies.policy import Policy

#: Of a video: what a GIF can show. Of faster environments only every n-th frame is kept.
FRAMES_PER_SECOND = 30
#: For environments that do not say how fast they are.
UNKNOWN_SPEED = 30

NO_WINDOW = "there is no display to open a window on; --video FILE records instead"
MUJOCO_HINT = "; the variable MUJOCO_GL names MuJoCo's renderer: glfw, egl or osmesa"

Show = Callable[[], None]


def play(
    policy: Policy,
    environment: str,
    *,
    episodes: int = 1,
    seed: int = 0,
    stochastic: bool = False,
    video: Path | None = None,
) -> Float64[np.ndarray, " episodes"]:
    """The returns of the episodes shown, which are those of `evaluate` with the same seed.

    `video` is a .gif or .mp4 to write, instead of opening a window.
    """
    seeds = episode_seeds(episodes, seed)
    imageio = None if video is None else _imageio(video)
    env = open_environment(environment, video)
    recorded = nullcontext(_nothing) if video is None else _recording(env, video, imageio)
    try:
        check_actions(env, policy, environment)
        with recorded as show:

            def act(observation: np.ndarray, random: np.random.Generator):
                show()
                return policy(observation, random if stochastic else None)

            return returns(env, act, seeds)
    finally:
        env.close()


def _choose_renderer(video: Path | None) -> None:
    """Where there is no display, MuJoCo draws with EGL, unless told otherwise."""
    if sys.platform != "linux" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY"))):
        return
    if video is None:
        raise LobsDICEError(NO_WINDOW)
    os.environ.setdefault("MUJOCO_GL", "egl")


def open_environment(name: str, video: Path | None) -> Any:
    """The environment, or one sentence if it cannot be drawn."""
    _choose_renderer(video)
    try:
        env: Any = make(name, render_mode="human" if video is None else "rgb_array")
        if hasattr(env.unwrapped, "mujoco_renderer"):
            _require_window(env)
            _follow(env)
        env.reset(seed=0)
        env.render()
    except LobsDICEError:
        raise
    except Exception as error:  # every graphics library has its own kinds
        # Gymnasium says itself what to install; graphics libraries are less helpful.
        hint = "" if type(error).__name__ == "DependencyNotInstalled" else MUJOCO_HINT
        reason = str(error) or type(error).__name__
        raise LobsDICEError(f"{name} cannot be drawn here: {reason}{hint}") from error
    return env


def _require_window(env: Any) -> None:
    """MuJoCo's window would end the process if the display that is named cannot be opened."""
    if env.unwrapped.render_mode != "human":
        return
    glfw: Any = importlib.import_module("glfw")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not glfw.init():
            raise LobsDICEError(NO_WINDOW)


def _follow(env: Any) -> None:
    """Let the view move with MuJoCo's walkers, which Gymnasium would let run out of the picture."""
    renderer = env.unwrapped.mujoco_renderer
    mujoco: Any = importlib.import_module("mujoco")
    if mujoco.mj_name2id(renderer.model, mujoco.mjtObj.mjOBJ_CAMERA, "track") < 0:
        return
    view = {"trackbodyid": 1, **(renderer.default_cam_config or {})}
    renderer.default_cam_config = {**view, "type": int(mujoco.mjtCamera.mjCAMERA_TRACKING)}
    renderer.camera_id = None  # or else every frame would be drawn by a camera that stands still


@dataclass
class Recorder:
    """Appends what an environment looks like to a video."""

    env: Any
    writer: Any
    every: int
    calls: int = 0

    def __call__(self) -> None:
        if self.calls % self.every == 0:
            self.writer.append_data(self.env.render())
        self.calls += 1


@contextmanager
def _recording(env: Any, video: Path, imageio: Any) -> Iterator[Show]:
    speed = env.metadata.get("render_fps") or UNKNOWN_SPEED
    every = math.ceil(speed / FRAMES_PER_SECOND)
    options = {"duration": 1000 * every / speed, "loop": 0}
    if video.suffix.lower() == ".mp4":
        options = {"fps": speed / every, "macro_block_size": 2}  # all that H.264 asks for
    with (
        _quiet_fork(),
        atomic(video) as temporary,
        imageio.get_writer(temporary, **options) as writer,
    ):
        recorder = Recorder(env, writer, every)
        yield recorder
        writer.append_data(env.render())  # where the last episode ended


@contextmanager
def _quiet_fork() -> Iterator[None]:
    """JAX warns of forks, which are harmless where, as here, another program is started at once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        yield


def _imageio(video: Path) -> Any:
    """What writes the video; one sentence if it cannot."""
    suffix = video.suffix.lower()
    if suffix not in (".gif", ".mp4"):
        raise LobsDICEError(f"{video}: videos end in .gif or .mp4")
    if suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise LobsDICEError(
            f"{video}: an .mp4 needs imageio-ffmpeg, which is not installed: "
            "pip install imageio-ffmpeg, or record a .gif"
        )
    return require("imageio.v2", needed_by="a video", extra="mujoco")


def _nothing() -> None:
    """The environment shows itself in its window."""
