import pytest

from lobsdice.errors import plain


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
