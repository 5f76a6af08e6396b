"""Packages that come with an extra: imported where they are needed, asked for in one sentence."""

import importlib
from typing import Any

from lobsdice.errors import LobsDICEError


def require(module: str, *, needed_by: str, extra: str) -> Any:
    """The module, or an error that says what it is needed for and how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(module.partition(".")[0], needed_by=needed_by, extra=extra) from error


def missing(package: str, *, needed_by: str, extra: str) -> LobsDICEError:
    """What to say where a package of an extra is not installed."""
    return LobsDICEError(
        f"{needed_by} needs {package}, which is not installed; "
        f"it comes with: pip install 'lobsdice[{extra}]'"
    )
