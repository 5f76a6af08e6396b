"""`lobsdice data info`."""

import warnings
from dataclasses import dataclass
from typing import Any

from tyro.conf import Positional

from lobsdice.cli import output
from lobsdice.cli.arguments import Files
from lobsdice.data.description import describe
from lobsdice.data.formats import DEFAULTS, ReadOptions
from lobsdice.data.recordings import read_one
from lobsdice.errors import LobsDICEError


@dataclass(frozen=True)
class Info:
    """Describe recordings of any format: episodes, actions, returns, and the range of each feature.

    Example:
        lobsdice data info demos.npz
        lobsdice data info logs.csv --episode-column run --json
    """

    paths: Positional[Files]
    """Files, folders, patterns such as 'logs/*.csv', or ids of Minari datasets in the local
    cache."""
    json: bool = False
    """Print JSON instead of tables."""
    read: ReadOptions = DEFAULTS

    def __call__(self) -> None:
        if not self.paths:
            raise LobsDICEError("name at least one file; --help shows an example")
        # Of several files some may be demonstrations, without actions.
        options = self.read if len(self.paths) == 1 else self.read.unlabelled()
        reports = [_describe(path, options) for path in self.paths]
        if self.json:
            return output.print_json(reports)
        for report in reports:
            output.print_description(report)


def _describe(path: str, options: ReadOptions) -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        episodes = read_one(path, options)
    for warning in caught:
        warnings.warn(warning.message, stacklevel=2)
    texts = [str(warning.message) for warning in caught]
    return {"path": path, **describe(episodes), "warnings": texts}
