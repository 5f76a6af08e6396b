"""`lobsdice data convert`."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from lobsdice import console
from lobsdice.cli.arguments import refuse_existing, refuse_overwriting, write_episodes
from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import DEFAULTS, ReadOptions, read_parts
from lobsdice.data.recordings import read_one
from lobsdice.errors import plural


@dataclass(frozen=True)
class Convert:
    """Write a recording in another format. The suffix of the output names the format.

    Example:
        lobsdice data convert logs.csv logs.npz --episode-column run
        lobsdice data convert expert.hdf5 demos.npz --drop-actions
        lobsdice data convert logs logs.npz --separator ';' --scale x_mm=0.001
        lobsdice data convert logs.npz my_robot --to lerobot
        lobsdice data convert 'logs/*.parquet' logs.columns --columns
    """

    path: Annotated[Positional[str], arg(metavar="IN")]
    """File, folder, pattern such as 'logs/*.csv', or id of a Minari dataset in the local cache."""
    out: Annotated[Positional[Path], arg(metavar="OUT")]
    """File or folder to write."""
    to: str | None = None
    """Format to write, if the suffix does not name it: npz, hdf5, parquet, csv, robomimic, lerobot,
    lerobot-v2.1, rlds, columns or minari."""
    columns: bool = False
    """Write a folder of columns, from which training reads only what it needs at the time. CSV,
    Parquet and HDF5 files are read in parts, so that they may be larger than memory."""
    drop_actions: bool = False
    """Leave out the actions, as for demonstrations."""
    force: bool = False
    """Replace files that exist."""
    read: ReadOptions = DEFAULTS

    def __call__(self) -> None:
        refuse_overwriting([self.path], [self.out])
        refuse_existing([self.out], force=self.force)
        if self.columns:
            return self._write_columns()
        episodes = read_one(self.path, self.read)
        kept = episodes.without_actions() if self.drop_actions else episodes
        write_episodes(self.out, kept, to=self.to)

    def _write_columns(self) -> None:
        from lobsdice.data.formats.mapped import write_parts

        done = [0, 0]

        def parts() -> Iterator[Episodes]:
            for part in read_parts(self.path, self.read):
                yield part.without_actions() if self.drop_actions else part
                done[0] += len(part)
                done[1] += part.steps

        with console.waiting(f"Writing {self.out}"):
            write_parts(self.out, parts())
        console.say(f"wrote {self.out}: {plural(done[0], 'episode')}, {plural(done[1], 'step')}")
