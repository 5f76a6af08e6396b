"""Clips of a policy, a demonstration and a rehearsal, in an environment that draws one number."""

import gymnasium
import numpy as np
import pytest
from line_world import demonstrations, going

from lobsdice.report.clips import film, section

LINE, UNKNOWN = "Line-v0", "Unplaced-v0"


class Line(gymnasium.Env):
    """A point on a line; a picture is as bright as the point is far to the right."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 12.5}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None):
        self.render_mode, self.x = render_mode, 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0.0
        return np.array([self.x], np.float32), {}

    def step(self, action):
        self.x += float(action[0]) / 10
        return np.array([self.x], np.float32), 0.0, self.x > 1, False, {}

    def render(self):
        return np.full((8, 8, 3), np.clip(128 + 100 * self.x, 0, 255), np.uint8)


class Placed(Line):
    """The same, which can be put into a state; it cannot go farther left than -1."""

    def place(self, observation: np.ndarray) -> bool:
        self.x = max(float(observation[0]), -1.0)
        return self.x == float(observation[0])


@pytest.fixture(autouse=True)
def environments():
    gymnasium.register(LINE, entry_point=lambda **options: Placed(**options), max_episode_steps=20)
    gymnasium.register(UNKNOWN, entry_point=lambda **options: Line(**options), max_episode_steps=20)
    yield
    del gymnasium.registry[LINE], gymnasium.registry[UNKNOWN]


def brightness(clip) -> list[int]:
    return [int(frame.mean()) for frame in clip.frames]


def test_rehearsed_states_are_drawn_where_the_environment_knows_them():
    states = np.linspace(0, 0.5, 6, dtype=np.float32)[:, None]
    clips = film(going(0.8), "mine", LINE, demonstrations(), states)
    assert clips.rehearsed is not None and clips.expert is not None
    assert brightness(clips.rehearsed) == [128, 138, 148, 158, 168, 178]
    assert "5 steps in the learned world" in clips.rehearsed.caption
    page = section(clips)
    assert all(clip.caption in page for clip in (clips.policy, clips.expert, clips.rehearsed))


def test_rehearsed_states_need_not_be_exact_and_recorded_ones_must_be():
    far = np.array([[0.0], [-2.0]], np.float32)
    clips = film(going(0.8), "mine", LINE, None, far)
    assert clips.expert is None
    assert clips.rehearsed is not None and brightness(clips.rehearsed) == [128, 28]


def test_without_such_an_environment_there_is_only_the_policy():
    clips = film(going(0.8), "mine", UNKNOWN, demonstrations(), np.zeros((2, 1), np.float32))
    assert clips.expert is None and clips.rehearsed is None
    assert clips.policy.caption in section(clips)
