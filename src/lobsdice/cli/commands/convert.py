"""`lobsdice data convert`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from lobsdice.cli.arguments import refuse_existing, refuse_overwriting, write_episodes
from lobsdice.data.formats import DEFAULTS, ReadOptions
from lobsdice.data.recordings import read_one


@dataclass(frozen=True)
class Convert:
    """Write a recording in another format. The suffix of the output names the format.

    Example:
        lobsdice data convert logs.csv logs.npz --episode-column run
        lobsdice data convert expert.hdf5 demos.npz --drop-actions
    """

    path: Annotated[Positional[str], arg(metavar="IN")]
    """File, folder, or id of a Minari dataset in the local cache."""
    out: Annotated[Positional[Path], arg(metavar="OUT")]
    """File to write."""
    drop_actions: bool = False
    """Leave out the actions, as for demonstrations."""
    force: bool = False
    """Replace files that exist."""
    read: ReadOptions = DEFAULTS

    def __call__(self) -> None:
        refuse_overwriting([self.path], [self.out])
        refuse_existing([self.out], force=self.force)
        episodes = read_one(self.path, self.read)
        write_episodes(self.out, episodes.without_actions() if self.drop_actions else episodes)
