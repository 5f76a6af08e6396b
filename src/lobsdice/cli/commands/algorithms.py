"""`lobsdice algorithms`."""

from dataclasses import dataclass

from lobsdice.algorithms import ALGORITHMS
from lobsdice.cli import output


@dataclass(frozen=True)
class Algorithms:
    """List the algorithms to train with: a summary, a citation, and the data that each needs.

    Example:
        lobsdice algorithms
        lobsdice algorithms --json
    """

    json: bool = False
    """Print JSON instead of a table."""

    def __call__(self) -> None:
        texts = ("summary", "citation", "needs")
        rows = [
            {"name": name, "class_name": kind.__name__} | {key: getattr(kind, key) for key in texts}
            for name, kind in ALGORITHMS.items()
        ]
        if self.json:
            return output.print_json(rows)
        output.print_rows(rows, ("name", *texts))
