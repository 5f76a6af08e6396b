"""From the words of a command line to a command that ran, and an exit code.

Nothing here imports JAX or NumPy, so that `--help` answers at once.
"""

import importlib
import inspect
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from lobsdice.cli.table import ROOT, Command, Group
from lobsdice.errors import LobsDICEError

OK, FAILED, USER_ERROR, INTERRUPTED = 0, 1, 2, 130
HELP = ("-h", "--help")
#: How errors and warnings speak of an option, by the name that Python has for it.
OPTION = re.compile(r"`([a-z]+(?:_[a-z]+)+)`")


@runtime_checkable
class Runnable(Protocol):
    def run(self) -> None: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    # --debug may stand anywhere, so that it can be appended to a line that failed.
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    with warnings_in_one_line():
        return _exit_code(lambda: _dispatch(words), debug)


def _dispatch(words: list[str]) -> None:
    if words[:1] == ["--version"]:
        from lobsdice import __version__

        print(f"lobsdice {__version__}")
        return
    path, entry, rest = _find(words)
    if isinstance(entry, Group):
        print(_group_help(path, entry))
    else:
        _parse(path, entry, rest).run()
    sys.stdout.flush()  # a closed pipe shows here, where it is caught, and not at exit


def _find(words: list[str]) -> tuple[list[str], Command | Group, list[str]]:
    """Follow the words through the table: the path taken, where it ends, the words left over."""
    path, entry = ["lobsdice"], ROOT
    while isinstance(entry, Group):
        if not words or words[0] in HELP:
            return path, entry, []
        word, *words = words
        if word not in entry.members:
            raise LobsDICEError(_unknown(word, path, entry))
        path, entry = [*path, word], entry.members[word]
    return path, entry, words


def _unknown(word: str, path: list[str], group: Group) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, group.members, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(group.members)}"
    return f"`{' '.join(path)}` has no command {word!r}; {hint}"


def _parse(path: list[str], command: Command, words: list[str]) -> Runnable:
    import tyro

    from lobsdice.cli.defaults import said_once

    if command.audits:  # NumPy, which the command imports, looks at it once
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    module, _, name = command.target.partition(":")
    kind: Callable[..., Runnable] = getattr(
        importlib.import_module(f"lobsdice.cli.commands.{module}"), name
    )
    return tyro.cli(
        kind,
        prog=" ".join(path),
        description=inspect.getdoc(kind),
        args=words,
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone),
        registry=said_once(),
    )


def _group_help(path: list[str], group: Group) -> str:
    width = max(map(len, group.members))
    line = " ".join(path)
    lines = [f"usage: {line} COMMAND ...", "", group.summary, "", "commands:"]
    lines += [f"  {name:<{width}}  {entry.summary}" for name, entry in group.members.items()]
    lines += ["", "options:", "  -h, --help  Show help; every command has its own."]
    if group is ROOT:
        lines += ["  --version   Show the version."]
    lines += ["  --debug     Show the traceback of an error.", "", "example:", f"  {group.example}"]
    return "\n".join(lines)


def _exit_code(job: Callable[[], None], debug: bool) -> int:
    try:
        job()
    except LobsDICEError as error:
        return _failed(f"error: {error}", USER_ERROR, debug)
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED, debug)
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else FAILED
    except Exception as error:
        hint = "this is a bug in lobsdice; --debug shows where"
        return _failed(f"error: {type(error).__name__}: {error} ({hint})", FAILED, debug)
    return OK


def _failed(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(_for_the_shell(message), file=sys.stderr)
    return code


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Show warnings as `warning: ...` on standard error, without the source line they come from."""

    def show(message, category, filename, lineno, file=None, line=None):
        print(_for_the_shell(f"warning: {message}"), file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def _for_the_shell(text: str) -> str:
    """One line, in which an option is called what it is called here: --action-low."""
    return " ".join(OPTION.sub(lambda found: f"--{found[1].replace('_', '-')}", text).split())
