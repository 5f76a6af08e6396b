"""Episodes of several files, such as those of a folder with one file an episode."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from lobsdice.data.episodes import Episodes, concatenate
from lobsdice.data.formats.actions import Guess, guess
from lobsdice.data.formats.words import Words
from lobsdice.errors import plural

#: The end of the name of a part of an episode.
PART = re.compile(r" part \d+$")
#: A number in a sentence, with the noun that it counts.
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?( [a-z]+?)?s?\b")


def natural(path: Path) -> list[tuple[int, str]]:
    """A key that sorts names by the numbers in them: run_2 before run_10."""
    parts = re.findall(r"\d+|\D+", str(path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def told_apart(paths: Sequence[Path]) -> list[str]:
    """The names of files; if files of several folders have the same name, with their folders."""
    names = [path.name for path in paths]
    if len({stem(name) for name in names}) == len(names):
        return names
    above = os.path.commonpath([path.parent for path in paths])
    return [path.relative_to(above).as_posix() for path in paths]


def stem(name: str) -> str:
    """The name of a file without its suffixes, and with its folders."""
    path = PurePosixPath(name)
    return str(path.with_name(path.name.partition(".")[0] or path.name))


def join(
    names: Sequence[str], parts: Sequence[Episodes], notices: Sequence[Sequence[str]]
) -> tuple[Episodes, list[str]]:
    """All episodes in one, named after their files, and the warnings about the files.

    What one file does not say about its actions is guessed from all files together.
    """
    stems = [stem(name) for name in names]
    called = [_named(part, stem) for part, stem in zip(parts, stems, strict=True)]
    joined = concatenate(called, names)
    words = [item for sentences in notices for item in sentences if isinstance(item, Words)]
    found = [*_together(names, notices), *words]
    space = joined.action_space
    if space is not None and space.assumed and joined.actions is not None:
        found += guess(space, joined.actions)
    return joined, found


def _named(part: Episodes, stem: str) -> Episodes:
    inner = part.episode_names or tuple(map(str, range(len(part))))
    # The parts of a single episode need only their numbers.
    if len({PART.sub("", name) for name in inner}) == 1:
        names = tuple(stem + "".join(PART.findall(name)) for name in inner)
    else:
        names = tuple(f"{stem} {name}" for name in inner)
    return replace(part, episode_names=names, valid=True)


def _together(names: Sequence[str], notices: Sequence[Sequence[str]]) -> list[str]:
    """Each kind of sentence once, with the first file that it is about.

    Sentences that differ only in their numbers are of one kind.
    """
    kinds: dict[str, dict[str, str]] = {}
    for name, sentences in zip(names, notices, strict=True):
        for sentence in sentences:
            if not isinstance(sentence, Guess | Words):
                kinds.setdefault(NUMBER.sub(r"0\1", sentence), {}).setdefault(name, sentence)
    return [_of_files(said) for said in kinds.values()]


def _of_files(said: Mapping[str, str]) -> str:
    """One sentence for those of several files."""
    (first, sentence), *others = said.items()
    same = sum(other == sentence for _, other in others)
    more = f" and {same} more" if same else ""
    rest = plural(len(others) - same, "other file")
    alike = f"; similarly in {rest}" if len(others) > same else ""
    return f"{first}{more}: {sentence}{alike}"
