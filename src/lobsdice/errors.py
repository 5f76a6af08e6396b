"""Errors and warnings that users see, and the words that their sentences share."""

import importlib
import re
from typing import Any

#: Sequences that colour text on a terminal, which other packages put into their messages.
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: Characters that a terminal obeys or cannot show: controls, line separators, marks that reverse
#: the direction of text, and the bytes of a file name that are not UTF-8.
UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


#: Options of one word. In messages, options stand in backticks, as Python names them: `action_low`.
SINGLE = (
    *("comment", "decimal", "scale", "separator", "subset"),  # of files
    *("initial", "pool", "subsample"),  # of preparation
    *("average", "cooldown", "devices", "every", "keep", "seeds", "steps", "tensorboard"),
    *("terminal", "wandb"),  # of training
    *("cpus", "gpus", "hours", "jobs", "memory", "retries"),  # of executors
    *("rate", "units"),  # of export
    *("alpha", "balance", "best", "beta", "blur", "calibrate", "components", "cost", "eta"),
    *("expectile", "gamma", "gradient", "lagrange", "pretrain", "reward", "sharpness", "stretch"),
    *("tau", "temperature", "width"),  # of algorithms
)
OPTION = re.compile(rf"`([a-z]+(?:_[a-z]+)+|{'|'.join(SINGLE)})`")


class LobsDICEError(Exception):
    """An error in what a user gave; its one sentence says what is wrong and where."""


class MissingColumnError(LobsDICEError):
    """A column that an option names, and that a table does not have."""


class NotFiniteError(LobsDICEError):
    """An observation with NaN or infinity, for which a policy has no action."""


class DataWarning(UserWarning):
    """Something in the data that is valid but worth a look."""


def require(module: str, *, needed_by: str, extra: str) -> Any:
    """Import a module of an extra, or raise an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(module.partition(".")[0], needed_by=needed_by, extra=extra) from error


def missing(package: str, *, needed_by: str, extra: str) -> LobsDICEError:
    """The error for a package of an extra that is not installed."""
    return LobsDICEError(
        f"{needed_by} needs {package}, which is not installed; "
        f"it comes with: pip install 'lobsdice[{extra}]'"
    )


def for_the_shell(text: str) -> str:
    """The text as one line that names options as the shell does: --action-low."""
    return " ".join(with_shell_options(text).split())


def with_shell_options(text: str) -> str:
    """The text with the names of options as in the shell."""
    return OPTION.sub(lambda found: f"--{found[1].replace('_', '-')}", text)


def plural(count: int, noun: str) -> str:
    """A count and its noun, such as `1 run` or `2,000 steps`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def plain(text: str) -> str:
    r"""Text from a user or a file as one line that does nothing to a terminal: `\x1b` for ESC."""
    return UNSAFE.sub(lambda found: _escaped(found[0]), COLOUR.sub("", text))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
