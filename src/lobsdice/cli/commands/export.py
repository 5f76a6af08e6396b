"""`lobsdice export`: a policy as a file that needs no lobsdice."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tyro.conf import Positional

from lobsdice import console
from lobsdice.cli import output
from lobsdice.cli.arguments import RunNumber, Which, policy_of, refuse_existing, settings_of
from lobsdice.cli.commands.data import Reading, read_unlabelled, refuse_overwriting
from lobsdice.data.formats import DEFAULTS, ReadOptions
from lobsdice.errors import DataWarning, LobsDICEError
from lobsdice.policies.agreement import likely_observations
from lobsdice.policies.numpy import export_numpy
from lobsdice.policies.onnx import export_onnx
from lobsdice.policies.policy import Policy


@dataclass(frozen=True)
class Export:
    """Write a policy as an ONNX graph, or as one Python file that needs NumPy alone.

    Observations and actions are in the units of the recordings; the normaliser and the bounds of
    the actions are inside. Every file is run on observations before it is put in place, and
    refused if its actions differ from the policy's by more than 1e-5 of their range.

    Example:
        lobsdice export runs/mine --onnx policy.onnx
        lobsdice export runs/mine --which best --run 2 --numpy policy.py --observations logs.npz
    """

    path: Positional[Path]
    """The folder of a run, or the file of a policy."""
    onnx: Path | None = None
    """The ONNX file to write."""
    numpy: Path | None = None
    """The Python file to write."""
    stochastic: bool = False
    """Give the ONNX graph a second input, `noise`, that draws actions as the policy says. (The
    Python file takes a random generator in any case.)"""
    which: Which = "last"
    """The policy after the last step, with the best return, or with the least offline error."""
    number: RunNumber = None
    """Which of a folder's runs."""
    observations: str | None = None
    """A recording whose observations to check with (default: those that the run was trained on, or
    if they are gone random ones with the same mean and deviation)."""
    force: bool = False
    """Replace files that exist."""
    json: bool = False
    """Print JSON instead of lines."""
    read: Reading = DEFAULTS

    def run(self) -> None:
        self.check_paths()
        policy = policy_of(self.path, self.which, self.number)
        source, rows = self.rows(policy)
        differences = {}
        with console.waiting("Exporting"):
            if self.onnx is not None:
                found = export_onnx(policy, self.onnx, rows, stochastic=self.stochastic)
                differences[self.onnx] = found
            if self.numpy is not None:
                differences[self.numpy] = export_numpy(policy, self.numpy, rows)
        report = {str(path): difference for path, difference in differences.items()}
        if self.json:
            return output.print_json({"differences": report, "observations": source})
        for path, found in report.items():
            print(f"wrote {path}: agrees with the policy to {found:.1e} of the actions' range")
        print(f"observations: {source}")

    def check_paths(self) -> None:
        """Raise unless there is something to write, and nothing in the way."""
        named = [path for path in (self.onnx, self.numpy) if path is not None]
        if not named:
            raise LobsDICEError("name what to write: --onnx FILE, --numpy FILE or both")
        refuse_existing(named, force=self.force)
        refuse_overwriting([str(self.path)], named)

    def rows(self, policy: Policy) -> tuple[str, np.ndarray]:
        """Observations to check with, and where they are from."""
        if self.observations is not None:
            return self.observations, read_unlabelled(self.observations, self.read).observations
        settings = settings_of(self.path)
        if paths := recordings(settings):
            return ", ".join(paths), read_recordings(paths, settings["read"])
        return "random, for there is no recording", likely_observations(policy)


def recordings(settings: Mapping[str, Any]) -> list[str]:
    """The files that a run was trained on, as far as they are still there."""
    named = [*settings.get("offline", ()), settings.get("expert")]
    return [path for path in named if path and Path(path).exists()]


def read_recordings(paths: list[str], options: Mapping[str, Any]) -> np.ndarray:
    """The observations of all of them."""
    plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # said when the run was trained
        found = [read_unlabelled(path, ReadOptions(**plain)).observations for path in paths]
    return np.concatenate(found)
