"""Episodes of several files, such as those of a folder with one file an episode."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lobsdice.data.episodes import Episodes, concatenate
from lobsdice.data.formats.actions import Guess, guess


def natural(path: Path) -> list[tuple[int, str]]:
    """A key that sorts names by the numbers in them: run_2 before run_10."""
    parts = re.findall(r"\d+|\D+", str(path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def join(
    names: Sequence[str], parts: Sequence[Episodes], notices: Sequence[Sequence[str]]
) -> tuple[Episodes, list[str]]:
    """All episodes in one, named after their files, and the warnings about the files.

    What one file does not say about its actions is guessed from all files together.
    """
    stems = [name.partition(".")[0] for name in names]
    called = [_named(part, stem) for part, stem in zip(parts, stems, strict=True)]
    joined = concatenate(called, names)
    found = _together(names, notices)
    space = joined.action_space
    if space is not None and space.assumed and joined.actions is not None:
        found += guess(space, joined.actions)
    return joined, found


def _named(part: Episodes, stem: str) -> Episodes:
    inner = part.episode_names or tuple(map(str, range(len(part))))
    names = (stem,) if len(part) == 1 else tuple(f"{stem} {name}" for name in inner)
    return replace(part, episode_names=names, valid=True)


def _together(names: Sequence[str], notices: Sequence[Sequence[str]]) -> list[str]:
    """Each sentence once, with the first file that it is about and the number of the others."""
    about: dict[str, list[str]] = {}
    for name, sentences in zip(names, notices, strict=True):
        for sentence in sentences:
            if not isinstance(sentence, Guess):
                about.setdefault(sentence, []).append(name)
    return [
        f"{files[0]}{f' and {len(files) - 1} more' * (len(files) > 1)}: {sentence}"
        for sentence, files in about.items()
    ]
