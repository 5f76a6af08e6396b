"""Every command line: help, version, errors, warnings."""

import os
import re
import subprocess
import sys
import warnings

import pytest

import lobsdice as package
from lobsdice.cli import main as module_main
from lobsdice.cli.table import ROOT, Command, Group
from lobsdice.environments.tasks.table import BUILT_IN
from lobsdice.errors import LobsDICEError


def paths(entry: Group | Command, words: tuple[str, ...] = ()):
    """Yield every group and command, as the words that name it."""
    yield words
    if isinstance(entry, Group):
        for name, member in entry.members.items():
            yield from paths(member, (*words, name))


def python(code: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **options
    )


@pytest.mark.parametrize("words", list(paths(ROOT)), ids=" ".join)
def test_help_teaches_with_an_example(lobsdice, words):
    result = lobsdice(*words, "--help")
    assert result.code == 0 and not result.err
    assert re.search(rf"[Ee]xample:\n +{' '.join(('lobsdice', *words))}", result.out)


def test_help_fits_a_terminal_of_80_columns_but_for_examples(lobsdice, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for words in [(), *paths(ROOT)]:
        out = lobsdice(*words, "--help").out
        lines = [line for line in out.splitlines() if not line.strip().startswith("lobsdice ")]
        assert max(map(len, lines)) <= 80, words
        assert "Example" not in out or out.count("╭") == out.count("╰") >= 1


def test_help_says_each_default_once_and_never_as_nothing(lobsdice):
    for words in paths(ROOT):
        text = re.sub(r"[│\s]+", " ", lobsdice(*words, "--help").out)
        assert "(default: None)" not in text and "(default: )" not in text, words
        assert not re.search(r"\(default[^()]*\)\W+\(default", text), words


@pytest.mark.parametrize("words", [("train", "bc"), ("data", "collect")], ids=" ".join)
def test_help_names_every_built_in_task(lobsdice, words):
    text = re.sub(r"[│\s]+", " ", lobsdice(*words, "--help").out)
    assert "also with noise, such as reach-noisy" in text
    for name in BUILT_IN:
        assert re.search(rf"\b{name.removesuffix('-noisy')}\b", text), name


@pytest.mark.parametrize("words", [(), ("data",)], ids=["lobsdice", "lobsdice data"])
def test_a_group_alone_prints_its_help(lobsdice, words):
    assert lobsdice(*words) == lobsdice(*words, "--help")


def test_version(lobsdice):
    assert lobsdice("--version").out == f"lobsdice {package.__version__}\n"


def test_help_imports_neither_jax_nor_numpy():
    code = "import sys, lobsdice.cli; lobsdice.cli.main(['--help']); print(sorted(sys.modules))"
    modules = python(code).stdout.splitlines()[-1]
    assert "'lobsdice.cli.main'" in modules
    assert "'jax'" not in modules and "'numpy'" not in modules


def test_commands_on_data_and_their_help_do_not_import_jax():
    code = (
        "import sys, lobsdice.cli\n"
        "for words in (['data', 'info'], ['data', 'check'], ['data', 'collect'], ['audit']):\n"
        "    lobsdice.cli.main([*words, '-h'])\n"
        "lobsdice.cli.main(['data', 'info', 'nowhere.npz'])\n"
        "print(*sys.modules)"
    )
    modules = python(code).stdout.splitlines()[-1].split()
    assert "lobsdice.cli.commands.info" in modules and "jax" not in modules


def test_commands_that_audit_turn_off_the_threads_of_numpy():
    code = (
        "import os\nfrom lobsdice.cli import main\n"
        "for command in ('evaluate', 'audit'):\n"
        "    main([command, '-h'])\n"
        "    print(os.environ.get('OPENBLAS_NUM_THREADS'))"
    )
    unset = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    lines = python(code, env=unset).stdout.splitlines()
    assert [line for line in lines if line in ("None", "1")] == ["None", "1"]


def test_an_unknown_command_is_one_line_with_a_hint(lobsdice):
    result = lobsdice("data", "inof")
    assert (result.code, result.out) == (2, "")
    assert result.err == "error: `lobsdice data` has no command 'inof'; did you mean 'info'?\n"
    assert "there are: data" in lobsdice("xyz").err


def test_an_unknown_option_is_a_short_usage_error(lobsdice, recording):
    result = lobsdice("data", "info", recording, "--jsno")
    assert (result.code, result.out) == (2, "")
    assert "--jsno" in result.err and "--json" in result.err and "Traceback" not in result.err
    assert len(result.err.splitlines()) < 12


def test_an_error_is_one_line(lobsdice):
    result = lobsdice("data", "info", "nowhere.npz")
    assert (result.code, result.out) == (2, "")
    assert result.err == "error: nowhere.npz: there is no such file or folder\n"


@pytest.mark.parametrize("position", [0, 1, 3])
def test_debug_shows_the_traceback_wherever_it_stands(lobsdice, position):
    words = ["data", "info", "nowhere.npz"]
    result = lobsdice(*words[:position], "--debug", *words[position:])
    assert result.code == 2
    assert result.err.startswith("Traceback")
    assert result.err.endswith("error: nowhere.npz: there is no such file or folder\n")


def run_instead(monkeypatch, job):
    """Make `lobsdice data info` do another job."""
    monkeypatch.setattr("lobsdice.cli.commands.info.Info.__call__", lambda self: job())


def test_a_bug_is_one_line_that_says_so(lobsdice, monkeypatch):
    run_instead(monkeypatch, lambda: [][0])
    result = lobsdice("data", "info", "x")
    assert result.code == 1
    assert re.fullmatch(r"error: IndexError: .* \(this is a bug .*\)\n", result.err)


def test_an_error_of_several_lines_becomes_one(lobsdice, monkeypatch):
    def fail():
        raise LobsDICEError("first\n  second")

    run_instead(monkeypatch, fail)
    assert lobsdice("data", "info", "x").err == "error: first second\n"


def test_an_interrupt_is_one_line(lobsdice, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    run_instead(monkeypatch, interrupt)
    result = lobsdice("data", "info", "x")
    assert (result.code, result.err) == (130, "interrupted\n")


def test_warnings_are_one_line_each(lobsdice, monkeypatch):
    run_instead(monkeypatch, lambda: warnings.warn("one\n two", UserWarning, stacklevel=1))
    result = lobsdice("data", "info", "x")
    assert (result.code, result.err) == (0, "warning: one two\n")


def test_warnings_are_shown_as_usual_afterwards(lobsdice):
    before = warnings.showwarning
    lobsdice("--version")
    assert warnings.showwarning is before


@pytest.mark.parametrize("words", ["--help", "data info {file}", "data info {file} --json"])
def test_a_closed_pipe_is_silent(recording, words):
    command = f"{sys.executable} -m lobsdice.cli {words.format(file=recording)} | true"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert result.stderr == ""


def test_the_process_has_the_exit_code():
    command = [sys.executable, "-m", "lobsdice.cli", "data", "info", "nowhere.npz"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)


def test_arguments_default_to_those_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["lobsdice", "--version"])
    assert module_main() == 0
    assert capsys.readouterr().out.startswith("lobsdice ")
