"""Rehearsal of every checkpoint during training, for `train --keep selected`."""

from pathlib import Path

from lobsdice.data.episodes import Episodes
from lobsdice.environments.learned import WORLD
from lobsdice.training.callbacks import Callback, Metrics, Moment
from lobsdice.training.rehearsal.files import kept_world, recordings_digest
from lobsdice.training.rehearsal.folders import Recorded
from lobsdice.training.rehearsal.rehearse import rehearse_policies
from lobsdice.training.select import RECOMMENDED, REHEARSAL

#: Rehearsed episodes of a checkpoint: fewer than `lobsdice rehearse` has, because there are many.
EPISODES = 40


def rehearse_checkpoints(out: Path, expert: Episodes, offline: Episodes) -> Callback:
    """A callback that adds the score of each policy's rehearsal, and whether it is recommended.

    The world is learned first, unless the run folder `out` keeps it from an interrupted training.
    """
    recordings = Recorded(expert, offline, recordings_digest(expert, offline))
    world = kept_world(out, recordings.digest)
    if world is None:
        world = recordings.learn()
        world.save(out / WORLD)

    def rehearsal(now: Moment) -> Metrics:
        policies = list(now.policies.values())
        found = rehearse_policies(world, policies, expert, episodes=EPISODES)
        verdicts = [one.verdict for one in found]
        return {
            REHEARSAL: [one.score for one in verdicts],
            RECOMMENDED: [float(one.works) for one in verdicts],
        }

    return rehearsal
