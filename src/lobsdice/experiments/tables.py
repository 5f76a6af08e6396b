"""Tables on disk."""

import csv
from pathlib import Path
from typing import Any

from lobsdice.data.files import atomic


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows that have the same columns as CSV."""
    with atomic(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path
