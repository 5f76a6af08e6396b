"""Names of columns that match a pattern."""

import re


def matches(name: str, pattern: str) -> bool:
    """True if the pattern is the name, or fits it: `*` is any text, and `?` any one letter.

    Brackets stand for themselves, because they are usual in names: `speed [m/s]`.
    """
    parts = {"*": ".*", "?": "."}
    expression = "".join(parts.get(sign, re.escape(sign)) for sign in pattern)
    return name == pattern or re.fullmatch(expression, name, re.DOTALL) is not None
