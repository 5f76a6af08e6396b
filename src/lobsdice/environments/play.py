"""Episodes of a policy shown in a window or recorded as a video."""

import importlib
import importlib.util
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from lobsdice.data.files import atomic
from lobsdice.data.spaces import Discrete
from lobsdice.environments.evaluate import check_actions, episode_seeds, other_bounds
from lobsdice.environments.gym import make, returns, rollout
from lobsdice.environments.learned import LearnedWorld, Rehearsal
from lobsdice.environments.placing import placing
from lobsdice.errors import DataWarning, LobsDICEError, require
from lobsdice.policies.policy import Policy

#: Largest frame rate of a video, which a GIF can show. Faster environments lose frames.
FRAMES_PER_SECOND = 30
#: Frames per second of environments that do not specify it.
UNKNOWN_SPEED = 30

NO_WINDOW = "there is no display to open a window on; --video FILE records instead"
MUJOCO_HINT = "; the variable MUJOCO_GL names MuJoCo's renderer: glfw, egl or osmesa"


def play(
    policy: Policy,
    environment: str,
    *,
    episodes: int = 1,
    seed: int = 0,
    stochastic: bool = False,
    video: Path | None = None,
) -> Float64[np.ndarray, " episodes"]:
    """Show episodes and return their returns: those of `evaluate` with the same seed.

    With `video`, a .gif or .mp4, a file is written instead of opening a window.
    """
    seeds = episode_seeds(episodes, seed)
    imageio = None if video is None else _imageio(video)
    env = open_environment(environment, video)
    frames = nullcontext(lambda: None) if video is None else _recording(env, video, imageio)
    try:
        check_actions(env, policy.action_space, environment)
        if said := other_bounds(env, policy.action_space, environment):
            warnings.warn(said, DataWarning, stacklevel=2)
        with frames as show:

            def act(observation: np.ndarray, random: np.random.Generator):
                show()
                return policy.act(observation, random if stochastic else None)

            return returns(env, act, seeds)
    finally:
        env.close()


def play_learned(
    policy: Policy,
    world: LearnedWorld,
    *,
    horizon: int,
    episodes: int = 1,
    seed: int = 0,
    stochastic: bool = False,
    video: Path | None = None,
    environment: str | None = None,
) -> list[tuple[int, str]]:
    """Play episodes in a learned world: the number of steps of each, and why it stopped.

    With `video`, the environment of that name draws the rehearsed states.
    """
    rehearsal = Rehearsal(world, horizon)

    def act(observation: np.ndarray, random: np.random.Generator):
        noise = random if stochastic else None
        if isinstance(policy.action_space, Discrete):  # numbers, where actions may have names
            return policy.scores(observation, noise).argmax(axis=-1)
        return policy(observation, noise)

    found, told = [], []
    for one in episode_seeds(episodes, seed):
        found.append(rollout(rehearsal, act, one).observations)
        told.append((len(found[-1]) - 1, rehearsal.why))
    if video is not None:
        _draw(found, environment, video)
    return told


def _draw(episodes: list[np.ndarray], environment: str | None, video: Path) -> None:
    """Record states that were never simulated, drawn by the environment that knows them."""
    imageio = _imageio(video)
    if environment is None:
        raise LobsDICEError(
            "nothing can draw the states of the learned world; --env names an environment that "
            "knows them, and the report shows them as curves"
        )
    env = open_environment(environment, video)
    try:
        put = placing(env.unwrapped, episodes[0].shape[1])
        if put is None:
            raise LobsDICEError(f"{environment} cannot be put into states that it did not simulate")
        with _recording(env, video, imageio) as show:
            for states in episodes:
                for _ in put(states):
                    show()
    finally:
        env.close()


def _choose_renderer(video: Path | None) -> None:
    """Let MuJoCo draw with EGL if there is no display and the user has chosen no renderer."""
    if sys.platform != "linux" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY"))):
        return
    if video is None:
        raise LobsDICEError(NO_WINDOW)
    os.environ.setdefault("MUJOCO_GL", "egl")


def open_environment(name: str, video: Path | None) -> Any:
    """Make an environment that can be drawn; raise if it cannot."""
    _choose_renderer(video)
    env: Any = make(name, render_mode="human" if video is None else "rgb_array")
    mujoco = hasattr(env.unwrapped, "mujoco_renderer")
    try:
        if mujoco:
            _require_window(env)
            _follow(env)
        env.reset(seed=0)
        frame = env.render()
    except LobsDICEError:
        raise
    except Exception as error:  # every graphics library has its own errors
        # Gymnasium names the missing package itself; graphics libraries do not.
        hint = MUJOCO_HINT if mujoco and type(error).__name__ != "DependencyNotInstalled" else ""
        reason = str(error) or type(error).__name__
        raise LobsDICEError(f"{name} cannot be drawn here: {reason}{hint}") from error
    if video is not None and not isinstance(frame, np.ndarray):
        raise LobsDICEError(f"{name} cannot be drawn here: it renders no picture")
    return env


def _require_window(env: Any) -> None:
    """Raise if the display cannot be opened, on which MuJoCo's window would end the process."""
    if env.unwrapped.render_mode != "human":
        return
    glfw: Any = importlib.import_module("glfw")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not glfw.init():
            raise LobsDICEError(NO_WINDOW)


def _follow(env: Any) -> None:
    """Let the camera follow MuJoCo's walkers, which would otherwise leave the picture."""
    renderer = env.unwrapped.mujoco_renderer
    mujoco: Any = importlib.import_module("mujoco")
    if mujoco.mj_name2id(renderer.model, mujoco.mjtObj.mjOBJ_CAMERA, "track") < 0:
        return
    view = {"trackbodyid": 1, **(renderer.default_cam_config or {})}
    renderer.default_cam_config = {**view, "type": int(mujoco.mjtCamera.mjCAMERA_TRACKING)}
    renderer.camera_id = None  # otherwise a fixed camera draws every frame


@contextmanager
def _recording(env: Any, video: Path, imageio: Any) -> Iterator[Callable[[], None]]:
    """Yield a function that appends a frame to the video, or skips it in a fast environment."""
    speed = env.metadata.get("render_fps") or UNKNOWN_SPEED
    every = math.ceil(speed / FRAMES_PER_SECOND)
    frames = count()
    options = {"duration": 1000 * every / speed, "loop": 0}
    if video.suffix.lower() == ".mp4":
        options = {"fps": speed / every, "macro_block_size": 2}  # as H.264 requires
    with (
        _quiet_fork(),
        atomic(video) as temporary,
        imageio.get_writer(temporary, **options) as writer,
    ):

        def show() -> None:
            if next(frames) % every == 0:
                writer.append_data(env.render())

        yield show
        writer.append_data(env.render())  # the last state


@contextmanager
def _quiet_fork() -> Iterator[None]:
    """Silence JAX's warning of forks: here a fork starts another program at once, which is safe."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        yield


def _imageio(video: Path) -> Any:
    """The module that writes the video; raise if it cannot."""
    suffix = video.suffix.lower()
    if suffix not in (".gif", ".mp4"):
        raise LobsDICEError(f"{video}: videos end in .gif or .mp4")
    if suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise LobsDICEError(
            f"{video}: an .mp4 needs imageio-ffmpeg, which is not installed: "
            "pip install imageio-ffmpeg, or record a .gif"
        )
    return require("imageio.v2", needed_by="a video", extra="mujoco")
