"""Short episodes of a policy from demonstrated states, beside what was demonstrated next.

A long episode in a learned world says little once the model is guessing. A few steps can be
trusted, and they can start anywhere on a demonstration. After one step this is the error of the
policy's actions, measured by what they do.
"""

import numpy as np

from lobsdice.policies.policy import Policy
from lobsdice.training.rehearsal.comparison import Shown
from lobsdice.training.rehearsal.rollouts import likeliest

#: Steps of a short episode, and the demonstrated states at which they start at most.
STEPS, STARTS = 5, 200


def following(shown: Shown, policy: Policy, *, seed: int = 0) -> float:
    """The closeness of a policy to the demonstrations over a few steps: from 0 to 1.

    It is 1 / (1 + d/m). Here d is the mean distance of its states from those of the demonstration
    at the same time, and m is how far the demonstration moves in that time. So a policy that stands
    still has about 0.5.
    """
    steps = int(min(STEPS, shown.episodes.lengths.max()))
    rows = _rows_before(shown, steps)
    s, target = shown.states[rows], shown.states[rows + steps]
    random, member = np.random.default_rng(seed), np.arange(len(rows)) % shown.world.members
    moved = float(np.mean(np.linalg.norm(target - s, axis=1)))
    for _ in range(steps):
        s, _, _ = shown.world.step(s, likeliest(policy, shown.world.raw(s)), member, random)
    away = float(np.mean(np.linalg.norm(target - s, axis=1)))
    return moved / (moved + away) if away else 1.0


def _rows_before(shown: Shown, steps: int) -> np.ndarray:
    """Evenly spaced demonstrated states that so many demonstrated steps follow."""
    episodes = shown.episodes
    rows = episodes.step_rows
    rows = rows[rows + steps <= episodes.ends[episodes.step_episodes]]
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), STARTS)).astype(int)]
