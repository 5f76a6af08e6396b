"""`lobsdice data split`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from lobsdice.cli.arguments import Out, refuse_existing, refuse_overwriting, write_episodes
from lobsdice.data.formats import DEFAULTS, ReadOptions
from lobsdice.data.recordings import read_one
from lobsdice.errors import LobsDICEError


@dataclass(frozen=True)
class Split:
    """Split a recording into two that share no episode: the first episodes, and the rest.

    Example:
        lobsdice data split expert.npz --first 5 --out demos.npz --rest others.npz --drop-actions
    """

    path: Annotated[Positional[str], arg(metavar="IN")]
    """File, folder, pattern such as 'logs/*.csv', or id of a Minari dataset in the local cache."""
    first: int
    """Number of episodes to write to `--out`."""
    out: Out
    """File for the first episodes."""
    rest: Path
    """File for all other episodes."""
    drop_actions: bool = False
    """Leave the actions out of `--out`, as for demonstrations."""
    force: bool = False
    """Replace files that exist."""
    read: ReadOptions = DEFAULTS

    def __call__(self) -> None:
        refuse_overwriting([self.path], [self.out, self.rest])
        refuse_existing([self.out, self.rest], force=self.force)
        episodes = read_one(self.path, self.read)
        if not 0 < self.first < len(episodes):
            raise LobsDICEError(
                f"{self.path}: cannot split off {self.first} of {len(episodes)} episodes; "
                "each part needs at least one"
            )
        first = episodes.first(self.first)
        write_episodes(self.out, first.without_actions() if self.drop_actions else first)
        write_episodes(self.rest, episodes.select(slice(self.first, None)))
