"""Small worlds whose episodes end in success or failure, each with scripted controllers.

A module holds one world: its environment, and `CONTROLLERS`, which maps the name of a source of
episodes to a function of an observation and a random generator that returns an action.
`trembling.py` has the MuJoCo tasks with noise instead. Importing this package registers the
environments with Gymnasium, so that this works too:

    gymnasium.make("lobsdice.environments.worlds:lobsdice/Reach-v0")
"""

import gymnasium

from lobsdice.environments.tasks.table import NOISY_TASKS, WORLDS

for _spec in (*WORLDS.values(), *NOISY_TASKS.values()):
    if _spec.environment not in gymnasium.registry:
        gymnasium.register(
            _spec.environment,
            entry_point=_spec.entry_point,
            max_episode_steps=_spec.max_steps,
            kwargs=dict(_spec.options),
        )
