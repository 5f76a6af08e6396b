"""Training in one call, as users of scikit-learn and d3rlpy know it: `LobsDICE().fit(...)`."""

from collections.abc import Sequence
from dataclasses import fields
from os import PathLike
from typing import Any

from lobsdice.algorithms.base import Algorithm
from lobsdice.algorithms.registry import resolve
from lobsdice.data.episodes import Episodes, require_episodes
from lobsdice.data.formats import DEFAULTS, ReadOptions
from lobsdice.data.formats.options import ALIASES, read_options
from lobsdice.data.formats.words import words_of_all_files
from lobsdice.data.prepare import Initial
from lobsdice.data.recordings import Preparation, read_together
from lobsdice.errors import LobsDICEError
from lobsdice.training.train import OPTIONS, Run, refuse_unknown, train

#: Episodes, or the file or files that hold them.
Recorded = Episodes | str | PathLike[str] | Sequence[str | PathLike[str]]
#: The keywords that say how to read files.
READ_OPTIONS = (*(field.name for field in fields(ReadOptions)), *ALIASES)
#: The options of `fit`: those of training, of preparation and of reading.
KNOWN = (*OPTIONS, "labelled", *(f.name for f in fields(Preparation)), "read", *READ_OPTIONS)


def fit(
    algorithm: Algorithm | str,
    demonstrations: Recorded,
    logs: Recorded,
    *,
    labelled: Recorded | None = None,
    initial: Initial = "first",
    subsample: int = 1,
    allow_leak: bool = False,
    pool: int | None = None,
    read: ReadOptions = DEFAULTS,
    **options: Any,
) -> Run:
    """Prepare recordings, train an algorithm on them, and return the run.

    Recordings are `Episodes`, or the names of files, which are read with the options `read`.
    Actions in the demonstrations are ignored. An algorithm that needs them takes those of
    `labelled` or, without these, those in the demonstrations. `initial`, `subsample`,
    `allow_leak` and `pool` are the options of the same names of `lobsdice train`; `options` are
    those of `train`, such as `steps`, `seeds`, `evaluate`, `out` and `callbacks`, and those of
    `ReadOptions`, such as `episode_column`.
    """
    algorithm = resolve(algorithm)
    refuse_unknown(options, KNOWN, algorithm)
    read = read_options(read, {name: options.pop(name) for name in READ_OPTIONS if name in options})
    with words_of_all_files():
        expert = _episodes("demonstrations", demonstrations, read.unlabelled())
        offline = _episodes("logs", logs, read)
        known = _episodes("labelled", labelled, read) if labelled is not None else None
    if known is None and algorithm.needs_labels:
        known = _with_actions(expert, algorithm)
    data = Preparation(initial, subsample, allow_leak, pool)(expert, offline, known)
    return train(algorithm, data, **options)


def _episodes(name: str, found: Recorded, read: ReadOptions) -> Episodes:
    if isinstance(found, Episodes):
        return found
    paths = [found] if isinstance(found, str | PathLike) else found
    if not isinstance(paths, list | tuple) or not all(isinstance(p, str | PathLike) for p in paths):
        require_episodes(**{name: found})
    return read_together([str(path) for path in paths], read)


def _with_actions(expert: Episodes, algorithm: Algorithm) -> Episodes:
    if expert.actions is None:
        raise LobsDICEError(
            f"{type(algorithm).__name__} learns from demonstrations with actions, and these have "
            "none; give some as `labelled`"
        )
    return expert
