"""A short clip of a policy, and of a demonstration and a rehearsal if states can be rendered.

A clip is one picture of all frames, not a video: page.js shows the frames in turn, can stop, and
keeps several clips at the same moment.
"""

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lobsdice.data.episodes import Episodes
from lobsdice.environments.evaluate import check_actions, episode_seeds
from lobsdice.environments.gym import returns
from lobsdice.environments.placing import placing
from lobsdice.environments.play import UNKNOWN_SPEED, open_environment
from lobsdice.policies.policy import Policy
from lobsdice.report.html import Html, tag

FRAMES, FRAMES_PER_SECOND = 60, 12.5
#: Frames side by side in the picture, width of a frame, image quality.
COLUMNS, WIDTH, QUALITY = 10, 280, 50


@dataclass(frozen=True, eq=False)
class Clip:
    """Frames and a caption."""

    frames: Sequence[np.ndarray]
    caption: str


@dataclass(frozen=True, eq=False)
class Clips:
    policy: Clip
    expert: Clip | None
    rehearsed: Clip | None
    """An episode in the learned world."""
    seconds: float
    """Seconds between two frames."""


def film(
    policy: Policy,
    whose: str,
    environment: str,
    expert: Episodes | None,
    rehearsed: np.ndarray | None = None,
) -> Clips:
    """Film the first episode of `lobsdice evaluate`, the first demonstration, rehearsed states."""
    env = open_environment(environment, Path("a clip rather than a window"))
    try:
        check_actions(env, policy.action_space, environment)
        speed = env.metadata.get("render_fps") or UNKNOWN_SPEED
        every = max(1, round(speed / FRAMES_PER_SECOND))
        acting = _policy_clip(env, policy, whose, every)
        shown = None if expert is None else _expert_clip(env, expert, every)
        drawn = None if rehearsed is None else _rehearsed_clip(env, rehearsed, every)
        return Clips(acting, shown, drawn, every / speed)
    finally:
        env.close()


def _policy_clip(env: Any, policy: Policy, whose: str, every: int) -> Clip:
    frames: list[np.ndarray] = []
    steps = 0

    def act(observation: np.ndarray, random: np.random.Generator):
        nonlocal steps
        if steps % every == 0 and len(frames) < FRAMES:
            frames.append(small(env.render()))
        steps += 1
        return policy.act(observation)

    (found,) = returns(env, act, episode_seeds(1, 0))
    caption = f"{whose}: an episode of {steps:,} steps with return {found:,.0f}"
    return Clip(frames, f"{caption} (the beginning)" if steps > every * FRAMES else caption)


def _expert_clip(env: Any, expert: Episodes, every: int) -> Clip | None:
    """Render the recorded states; None if they do not determine the simulator's state."""
    states = expert.observations[: expert.lengths[0] + 1]
    frames, exact = _drawn(env, states, every)
    caption = (
        f"The expert: demonstration 0, {expert.lengths[0]:,} steps, rendered from recorded states"
    )
    return Clip(frames, caption) if frames and exact else None


def _rehearsed_clip(env: Any, states: np.ndarray, every: int) -> Clip | None:
    """Render states of the learned world; None if they do not determine the simulator's state."""
    # The world need not be right to a thousandth, so what the simulator makes of it will do.
    frames, _ = _drawn(env, states, every)
    caption = (
        f"In rehearsal: the policy that came first, {len(states) - 1:,} steps in the learned "
        "world, from the first state of demonstration 0"
    )
    return Clip(frames, caption) if frames else None


def _drawn(env: Any, states: np.ndarray, every: int) -> tuple[list[np.ndarray], bool]:
    """Frames of given states, and True if the simulator reproduces all of these."""
    put = placing(env.unwrapped, states.shape[1])
    if put is None:
        return [], False
    frames, exact = [], True
    for step, there in enumerate(put(states[: every * FRAMES])):
        exact = exact and there
        if step % every == 0:
            frames.append(small(env.render()))
    return frames, exact


def small(frame: np.ndarray) -> np.ndarray:
    """Return a frame in the width of clips."""
    from PIL import Image

    picture = Image.fromarray(frame)
    height = round(WIDTH * picture.height / picture.width)
    return np.asarray(picture.resize((WIDTH, height), Image.Resampling.LANCZOS))


def section(clips: Clips) -> Html:
    """Return the clips side by side, with one slider for all."""
    films = (clips.policy, clips.expert, clips.rehearsed)
    shown = [clip for clip in films if clip is not None]
    last = max(len(clip.frames) for clip in shown) - 1
    slider = tag("input", type="range", min=0, max=last, value=0, aria_label="Moment of the clip")
    player = tag("div", tag("button", "Play", type="button"), slider, class_="player")
    films = tag("div", map(_figure, shown), class_="clips")
    return tag("div", films, player, class_="films", data_seconds=f"{clips.seconds:g}")


def _figure(clip: Clip) -> Html:
    height, width = clip.frames[0].shape[:2]
    lines = math.ceil(len(clip.frames) / COLUMNS)
    style = (
        f"aspect-ratio:{width}/{height};background-size:{100 * COLUMNS}% {100 * lines}%;"
        f"background-image:url({_picture(clip.frames)})"
    )
    picture = tag(
        "div",
        class_="film",
        role="img",
        aria_label=clip.caption,
        data_frames=len(clip.frames),
        data_columns=COLUMNS,
        style=style,
    )
    return tag("figure", picture, tag("figcaption", clip.caption), class_="clip")


def _picture(frames: Sequence[np.ndarray]) -> str:
    """Return all frames in rows of one picture, as a data URI."""
    from PIL import Image

    height, width = frames[0].shape[:2]
    sheet = Image.new("RGB", (COLUMNS * width, math.ceil(len(frames) / COLUMNS) * height))
    for i, frame in enumerate(frames):
        sheet.paste(Image.fromarray(frame), (i % COLUMNS * width, i // COLUMNS * height))
    file = io.BytesIO()
    sheet.save(file, "WEBP", quality=QUALITY)
    return f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"
