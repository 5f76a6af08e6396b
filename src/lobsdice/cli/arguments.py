"""Arguments that several commands share: which policy, which folders, which environment."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro

from lobsdice import console
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import Policy, load_policy

Found = TypeVar("Found")
Which = Literal["last", "best", "selected"]
RunNumber = Annotated[
    int | None, tyro.conf.arg(name="run", help_behavior_hint="(default: the first)")
]


def policies_of(path: Path, which: str) -> dict[int, Policy]:
    """The policy of each run that has one."""
    if path.is_file():
        return {0: load_policy(path)}
    from lobsdice.training.folder import RunFolder  # JAX comes with it, which a file does not need

    return RunFolder(path).policies(which)


def policy_of(path: Path, which: str, run: int | None) -> Policy:
    """The policy of one run; of several, the first unless another is named."""
    found = policies_of(path, which)
    first = next(iter(found))
    if run is None and len(found) > 1:
        console.say(f"{path} holds {len(found)} runs; taking run {first}, --run names another")
    if run is not None and run not in found:
        numbers = ", ".join(map(str, found))
        raise LobsDICEError(f"{path} holds no {which} policy of run {run}, only of: {numbers}")
    return found[first if run is None else run]


def refuse_existing(paths: list[Path], *, force: bool) -> None:
    """Raise if a file is there that may not be replaced."""
    for path in paths:
        if path.exists() and not force:
            raise LobsDICEError(f"{path} exists; --force replaces it")


def settings_of(path: Path) -> dict[str, Any]:
    """What `lobsdice train` was told; nothing where it was not the one who wrote the policy."""
    if path.is_file():
        return {}
    from lobsdice.training.folder import RunFolder

    return RunFolder(path).config()["about"].get("settings", {})


def environment_of(path: Path) -> str:
    """The environment that a run was evaluated in on the way."""
    settings = settings_of(path)
    name = settings.get("task") or settings.get("env")
    if name is None:
        raise LobsDICEError("name the environment with --env")
    return name


def readable(folders: Iterable[Path], read: Callable[[Path], Found]) -> dict[Path, Found]:
    """What `read` makes of each folder; what it refuses is left out, with a word about it."""
    found = {}
    for folder in folders:
        try:
            found[folder] = read(folder)
        except LobsDICEError as error:
            console.say(f"left out: {error}")
    return found
