"""Numbers in sentences."""


def plural(count: int, noun: str) -> str:
    """A count and its noun, such as `1 run` or `2,000 steps`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
