from dataclasses import fields
from typing import Any, cast

import pytest

from lobsdice.algorithms import ALGORITHMS
from lobsdice.cli.commands.export import Export
from lobsdice.cli.commands.sweep import Sweep
from lobsdice.data.formats import ReadOptions
from lobsdice.data.recordings import Preparation
from lobsdice.errors import SINGLE, for_the_shell, plain
from lobsdice.executors.options import Where
from lobsdice.training.engine import Options
from lobsdice.training.recipe import Recipe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("logs of Zoë ± 3 °C.npz", "logs of Zoë ± 3 °C.npz"),
        ("\x1b]0;title\x07x", r"\x1b]0;title\x07x"),
        ("\x1b[2J\x9b2J\x7f", r"\x1b[2J\x9b2J\x7f"),
        ("two\nlines\r\u2028here", r"two\nlines\r\u2028here"),
        ("gpj.\u202eexe\u2066", r"gpj.\u202eexe\u2066"),
        ("caf\udce9", r"caf\udce9"),
        ("\x1b[33mWARN: colours go\x1b[0m", "WARN: colours go"),
    ],
)
def test_plain_text_is_one_line_that_a_terminal_only_shows(text, shown):
    assert plain(text) == shown


def test_options_of_one_word_and_of_several_are_spelled_as_the_shell_does():
    found = for_the_shell("set `action_low`, `scale` and `terminal`, not `reset`")
    assert found == "set --action-low, --scale and --terminal, not `reset`"
    kinds = (ReadOptions, Options, Recipe, Preparation, Where, Sweep, Export, *ALGORITHMS.values())
    known = {field.name for kind in kinds for field in fields(cast(Any, kind))}
    assert set(SINGLE) <= known


@pytest.mark.parametrize("kind", [Options, *ALGORITHMS.values()])
def test_numbers_and_choices_of_one_word_are_known_as_options(kind):
    """`base._check` names them in its errors."""
    named = {f.name for f in fields(kind) if f.metadata or f.type in (int, float, "int", "float")}
    assert {name for name in named if "_" not in name} <= set(SINGLE)
