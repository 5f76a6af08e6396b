"""Run the command that a command line names, importing only that one: `--help` answers at once.

tyro's own subcommands would import every command, and JAX with them.
"""

import inspect
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from typing import Any

from lobsdice.cli.help import entries, wrapped_output
from lobsdice.cli.process import leave, own_process
from lobsdice.cli.table import ROOT, Command, Group
from lobsdice.errors import LobsDICEError, for_the_shell, plain

OK, FAILED, USER_ERROR, INTERRUPTED = 0, 1, 2, 130
HELP = ("-h", "--help")
#: A byte of the command line that is not in the encoding of file names, as Python reads it.
SURROGATE = re.compile(r"[\udc80-\udcff]")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    # --debug may stand anywhere, so that it can be appended to a line that failed.
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    with own_process(), warnings_in_one_line():
        code = _exit_code(words, debug)
    if code == INTERRUPTED and argv is None:
        leave(code)
    return code


def _dispatch(words: list[str]) -> None:
    try:
        _run(words)
    finally:
        sys.stdout.flush()  # a closed pipe or a full disk shows here, where it is caught


def _run(words: list[str]) -> None:
    if words[:1] == ["--version"]:
        from lobsdice import __version__

        print(f"lobsdice {__version__}")
        return
    path, entry, rest = _find(words)
    if isinstance(entry, Group):
        print(_group_help(path, entry))
    else:
        _parse(path, entry, rest)()


def _find(words: list[str]) -> tuple[list[str], Command | Group, list[str]]:
    """Return the path through the table that the words name, its last entry, and other words."""
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


def _parse(path: list[str], command: Command, words: list[str]) -> Callable[[], None]:
    if command.audits:  # NumPy, which the next import brings, looks at it once
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    kind, prog = command.load(), " ".join(path)
    if all(word == plain(word) for word in words):
        return _parsed(kind, prog, words)
    # tyro's errors would repeat the words as they are.
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return _parsed(kind, prog, words)
    finally:
        for line in said.getvalue().splitlines():
            _say(line)


def _parsed(kind: Any, prog: str, words: list[str]) -> Callable[[], None]:
    import tyro

    from lobsdice.cli.arguments import readable_help

    with wrapped_output() if set(HELP) & set(words) else nullcontext():
        return tyro.cli(
            kind,
            prog=prog,
            description=inspect.getdoc(kind),
            args=words,
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.DisallowNone),
            registry=readable_help(),
        )


def _group_help(path: list[str], group: Group) -> str:
    line = " ".join(path)
    lines = [f"usage: {line} COMMAND ...", "", group.summary, "", "commands:"]
    lines += entries({name: entry.summary for name, entry in group.members.items()})
    lines += ["", "options:", "  -h, --help  Show help; every command has its own."]
    if group is ROOT:
        lines += ["  --version   Show the version."]
    lines += ["  --debug     Show the traceback of an error.", "", "example:", f"  {group.example}"]
    return "\n".join(lines)


def _exit_code(words: list[str], debug: bool) -> int:
    try:
        _dispatch(words)
    except LobsDICEError as error:
        return _failed(f"error: {error}", USER_ERROR, debug)
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED, debug)
    except BrokenPipeError:  # the reader of our output has closed it
        return FAILED
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else FAILED
    except Exception as error:
        if odd := next(filter(SURROGATE.search, words), None):
            hint = f"{odd!r} is not in the encoding of file names; another name may help"
            return _failed(f"error: {hint} ({error})", USER_ERROR, debug)
        hint = "this is a bug in lobsdice; --debug shows where"
        return _failed(f"error: {type(error).__name__}: {error} ({hint})", FAILED, debug)
    return OK


def _failed(message: str, code: int, debug: bool) -> int:
    if debug:
        for line in traceback.format_exc().splitlines():
            _say(line)
    _say(for_the_shell(message))
    return code


def _say(line: str) -> None:
    """Print a line on standard error; `console.say` does so too, but needs time to be imported."""
    print(plain(line), file=sys.stderr)


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Show warnings as `warning: ...` on standard error, without the source line they come from."""

    def show(message, category, filename, lineno, file=None, line=None):
        _say(for_the_shell(f"warning: {message}"))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
