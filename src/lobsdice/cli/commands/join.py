"""`lobsdice data join`."""

from dataclasses import dataclass

from tyro.conf import Positional

from lobsdice.cli.arguments import Files, Out, refuse_existing, refuse_overwriting, write_episodes
from lobsdice.data.formats import DEFAULTS, ReadOptions
from lobsdice.data.recordings import read_together


@dataclass(frozen=True)
class Join:
    """Join recordings into one file. The source of each episode is the name of its file.

    Example:
        lobsdice data join others.npz medium.npz random.npz --out offline.npz
    """

    paths: Positional[Files]
    """Files, folders, patterns such as 'logs/*.csv', or ids of Minari datasets in the local
    cache."""
    out: Out
    """File to write."""
    force: bool = False
    """Replace files that exist."""
    read: ReadOptions = DEFAULTS

    def __call__(self) -> None:
        refuse_overwriting(self.paths, [self.out])
        refuse_existing([self.out], force=self.force)
        write_episodes(self.out, read_together(self.paths, self.read))
