"""`lobsdice algorithms`."""

from dataclasses import asdict, dataclass

from lobsdice.catalogue import CATALOGUE
from lobsdice.cli import output


@dataclass(frozen=True)
class Algorithms:
    """List what there is to train with: a line, a citation and the data that each learns from.

    Example:
        lobsdice algorithms
        lobsdice algorithms --json
    """

    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> None:
        rows = [{"name": name} | asdict(entry) for name, entry in CATALOGUE.items()]
        if self.json:
            return output.print_json(rows)
        output.print_rows(rows, ("name", "summary", "citation", "needs"))
