"""The settings of an experiment, kept in its folder so that results of different ones never mix."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lobsdice.data.files import atomic
from lobsdice.errors import LobsDICEError
from lobsdice.training.settings import differences

SETTINGS = "settings.json"


def claim(folder: Path, settings: dict[str, Any]) -> None:
    """Write the settings to the folder; raise if it holds results of other settings."""
    if not (folder / SETTINGS).exists():
        with atomic(folder / SETTINGS) as temporary:
            temporary.write_text(json.dumps(settings, indent=2) + "\n")
    elif differing := _differing(folder, settings):
        raise LobsDICEError(
            f"{folder} holds results of other settings ({', '.join(differing)} differ); "
            "choose another folder, or remove this one"
        )


def check_alike(folder: Path, settings: dict[str, Any], *, apart_from: set[str]) -> None:
    """Raise if the folder's results have other settings; those in `apart_from` may differ."""
    if not (folder / SETTINGS).exists():
        raise LobsDICEError(f"{folder} has no {SETTINGS}: it is no folder of an experiment")
    if differing := [key for key in _differing(folder, settings) if key not in apart_from]:
        raise LobsDICEError(
            f"the runs of {folder} cannot be reused: other settings ({', '.join(differing)} differ)"
        )


def _differing(folder: Path, settings: dict[str, Any]) -> list[str]:
    kept = json.loads((folder / SETTINGS).read_text())
    return sorted(differences([_flat(kept), _flat(settings)]))


def _flat(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """The values below all keys; an empty branch is a value."""
    found = {}
    for key, value in tree.items():
        branch = isinstance(value, Mapping) and value
        found |= _flat(value, f"{above}{key}.") if branch else {f"{above}{key}": value}
    return found
