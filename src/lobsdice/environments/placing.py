"""Put an environment into recorded or rehearsed states, so that it can draw them."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

#: The simulator must reproduce observations to this precision; they are float32.
TOLERANCE = 1e-3

#: Puts an environment into one state after the other. It yields True if it is there.
Put = Callable[[np.ndarray], Iterator[bool]]


def placing(world: Any, size: int) -> Put | None:
    """A function that puts an environment into observed states; None if that is impossible.

    The built-in worlds have a method `place` for it. Gymnasium's MuJoCo environments can be set to
    the state that they then observe as it was recorded.
    """
    if hasattr(world, "place"):
        return lambda states: (bool(world.place(state)) for state in states)
    return _placing_mujoco(world, size)


def _placing_mujoco(world: Any, size: int) -> Put | None:
    """The same for MuJoCo.

    The first one or two positions, along the track, are not observed. They are summed from the
    velocities.
    """
    model = getattr(world, "model", None)
    if model is None or not hasattr(world, "set_state") or not hasattr(world, "_get_obs"):
        return None
    hidden = model.nq + model.nv - size
    if hidden not in (0, 1, 2):
        return None

    def put(states: np.ndarray) -> Iterator[bool]:
        where = np.zeros(hidden)
        for state in states.astype(np.float64):
            position, velocity = np.split(state, [model.nq - hidden])
            world.set_state(np.concatenate([where, position]), velocity)
            where = where + velocity[:hidden] * world.dt
            seen = world._get_obs()
            yield seen.shape == state.shape and bool(np.allclose(seen, state, atol=TOLERANCE))

    return put
