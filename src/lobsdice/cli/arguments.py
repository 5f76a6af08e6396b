"""Arguments that several commands share, and what commands do with them."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from tyro.conf import FlagCreatePairsOff, arg
from tyro.constructors import (
    ConstructorRegistry,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from lobsdice import console
from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import write
from lobsdice.data.formats.options import ALIASES
from lobsdice.environments.gym import registered
from lobsdice.errors import LobsDICEError, for_the_shell, plural
from lobsdice.policies.policy import Policy, load_policy

if TYPE_CHECKING:
    from lobsdice.training.recipe import Recipe

Found = TypeVar("Found")
# To tyro, a list of arguments without a default may be empty; ours must not.
Files = Annotated[tuple[str, ...], arg(metavar="PATH...", help_behavior_hint="(required)")]
Folders = Annotated[tuple[Path, ...], arg(metavar="FOLDER...", help_behavior_hint="(required)")]
Out = Annotated[Path, arg(aliases=["-o"])]
Page = Annotated[Path | None, arg(aliases=["-o"])]
Which = Literal["last", "best", "selected"]
RunNumber = Annotated[int | None, arg(name="run")]


def readable_help() -> ConstructorRegistry:
    """Let tyro read dataclasses as usual, with two changes to its help; it has no marker for them.

    A docstring of several lines is one paragraph. A default that is None, () or False is not
    printed: the docstring says what happens without the option.
    """
    registry = ConstructorRegistry()

    @registry.struct_rule
    def rule(info: StructTypeInfo) -> StructConstructorSpec | None:
        if rule in info.markers:  # asked by itself: tyro's own rules answer
            return None
        marked: Any = replace(info, markers=(*info.markers, rule))
        spec = ConstructorRegistry.get_struct_spec(marked)
        if not isinstance(spec, StructConstructorSpec):
            return None
        return replace(spec, fields=tuple(map(_readable, spec.fields)))

    return registry


def _readable(field: StructFieldSpec) -> StructFieldSpec:
    field = replace(field, helptext=partial(_one_paragraph, field.helptext))
    if others := [_option(other) for other, name in ALIASES.items() if name == field.name]:
        field = replace(field, type=Annotated[field.type, arg(aliases=others)])
    if field.default is None or field.default is False or field.default == ():
        quiet = Annotated[field.type, arg(help_behavior_hint=""), FlagCreatePairsOff]
        return replace(field, type=quiet)
    return field


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _one_paragraph(text: str | Callable[[], str | None] | None) -> str | None:
    found = text() if callable(text) else text
    return found and " ".join(found.split())


def policies_of(path: Path, which: str) -> dict[int, Policy]:
    """Return the policy of each run that has one, by the numbers of the runs."""
    if path.is_file():
        return {0: load_policy(path)}
    from lobsdice.training.folder import RunFolder  # JAX comes with it, which a file does not need

    return RunFolder(path).policies(which)


def policy_of(path: Path, which: str, run: int | None) -> Policy:
    """Return the policy of one run; if none is named, that of the first."""
    found = policies_of(path, which)
    first = next(iter(found))
    if run is None and len(found) > 1:
        console.say(f"{path} holds {len(found)} runs; taking run {first}, --run names another")
    if run is not None and run not in found:
        numbers = ", ".join(map(str, found))
        raise LobsDICEError(f"{path} holds no {which} policy of run {run}, only of: {numbers}")
    return found[first if run is None else run]


def recipe_of(path: Path) -> "Recipe | None":
    """Return the recipe of a run folder; None for a policy file, or if it cannot be read."""
    if path.is_file():
        return None
    from lobsdice.training.recipe import read_recipe

    with suppress(LobsDICEError):
        return read_recipe(path)
    return None


def environment_of(path: Path) -> str:
    """Return the environment that a run was evaluated in during training."""
    recipe = recipe_of(path)
    if recipe is None or recipe.environment is None:
        raise LobsDICEError("name the environment with --env")
    return registered(recipe.environment)


def readable(folders: Iterable[Path], read: Callable[[Path], Found]) -> dict[Path, Found]:
    """Read each folder; leave out those that cannot be read, and say so."""
    found = {}
    for folder in folders:
        try:
            found[folder] = read(folder)
        except LobsDICEError as error:
            console.say(for_the_shell(f"left out: {error}"))
    return found


def write_episodes(path: Path, episodes: Episodes, *, to: str | None = None) -> None:
    """Write a recording and say how much is in it."""
    with console.waiting(f"Writing {path}"):
        write(path, episodes, to=to)
    counts = f"{plural(len(episodes), 'episode')}, {plural(episodes.steps, 'step')}"
    console.say(f"wrote {path}: {counts}")


def refuse_existing(paths: Sequence[Path], *, force: bool) -> None:
    """Raise if a file exists that may not be replaced."""
    for path in paths:
        if path.exists() and not force:
            raise LobsDICEError(f"{path} exists; --force replaces it")


def refuse_overwriting(inputs: Sequence[str], outputs: Sequence[Path]) -> None:
    """Raise if a command would write to a file that it reads, or twice to the same file."""
    taken = {Path(path).resolve() for path in inputs}
    for path in outputs:
        if path.resolve() in taken:
            raise LobsDICEError(
                f"{path} is an input or another output, too; each output needs its own name"
            )
        taken.add(path.resolve())
