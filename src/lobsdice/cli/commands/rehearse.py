"""`lobsdice rehearse`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from lobsdice import console
from lobsdice.cli import output
from lobsdice.cli.arguments import Folders
from lobsdice.errors import LobsDICEError

if TYPE_CHECKING:
    from lobsdice.training.rehearsal.files import Kept

#: Columns of the table; --json has more. All but the first take `WIDTH` characters.
COLUMNS = ("policy", "score", "chance", "finished", "failed", "guessing", "near")
WIDTH = 60


@dataclass(frozen=True)
class Rehearse:
    """Try policies out in a world that is learned from the logs, before they meet the real one.

    The logs teach an ensemble of networks what follows a step. Each policy acts in that world, from
    the first states of the logs and of the demonstrations. Its episodes are compared with the
    demonstrations: how long they stay near, whether they end alike, and where the ensemble
    disagrees, so that nothing can be said. Each run folder keeps the result, and `lobsdice report`
    shows it. `lobsdice select` chooses by it.

    Example:
        lobsdice rehearse runs/*
        lobsdice rehearse runs/mine --episodes 200 --json
    """

    folders: Positional[Folders]
    """Run folders whose runs learned from the same recordings."""
    steps: int | None = None
    """Gradient steps of learning the world. Without it 6000, or a world that a folder keeps."""
    episodes: int = 100
    """Rehearsed episodes of each policy."""
    horizon: int | None = None
    """Steps of an episode at most. Without it, as many as the longest demonstration has, or twice
    as many if the demonstrations end by themselves."""
    again: bool = False
    """Learn the world anew, even if a folder keeps one of the same recordings."""
    json: bool = False
    """Print JSON instead of a table."""

    def __call__(self) -> None:
        check_counts(steps=self.steps, episodes=self.episodes, horizon=self.horizon)
        from lobsdice.training.rehearsal.folders import rehearse_folders
        from lobsdice.training.rehearsal.verdict import answer, quality_sentence

        world, ranked = rehearse_folders(
            self.folders,
            steps=self.steps,
            episodes=self.episodes,
            horizon=self.horizon,
            again=self.again,
        )
        if self.json:
            return output.print_json({"world": world, "policies": rows_of(ranked)})
        print_ranking(ranked)
        console.show(quality_sentence(world["quality"]))
        console.show(answer([one.verdict for _, one in ranked]))


def check_counts(**given: int | None) -> None:
    """Raise if an option that counts something is below 1."""
    for name, value in given.items():
        if value is not None and value < 1:
            raise LobsDICEError(f"--{name} is {value}; it must be at least 1")


def print_ranking(kept: "Sequence[tuple[Path, Kept]]") -> None:
    """Print a line for each rehearsed policy; its name is short, as in `runs/mine last-0`."""
    folders = output.name_folders([path for path, _ in kept], WIDTH)
    names = [
        f"{folder} {Path(one.policy).stem}" for folder, (_, one) in zip(folders, kept, strict=True)
    ]
    rows = [row | {"policy": name} for name, row in zip(names, rows_of(kept), strict=True)]
    output.print_rows(rows, COLUMNS)


def rows_of(kept: "Sequence[tuple[Path, Kept]]") -> list[dict[str, Any]]:
    """Return a row for each rehearsed policy."""
    return [
        {"policy": str(path / one.policy)}
        | {key: _short(value) for key, value in one.verdict.to_plain().items()}
        for path, one in kept
    ]


def _short(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value
