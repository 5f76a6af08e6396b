"""`lobsdice export`."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tyro.conf import Positional, arg

from lobsdice import console
from lobsdice.cli import output
from lobsdice.cli.arguments import (
    RunNumber,
    Which,
    policy_of,
    recipe_of,
    refuse_existing,
    refuse_overwriting,
)
from lobsdice.data.formats import DEFAULTS, ReadOptions
from lobsdice.data.recordings import read_unlabelled
from lobsdice.errors import DataWarning, LobsDICEError
from lobsdice.policies.agreement import ENOUGH, likely_observations
from lobsdice.policies.contract import contract_path, fingerprint, read_contract
from lobsdice.policies.numpy import export_numpy
from lobsdice.policies.onnx import export_onnx
from lobsdice.policies.policy import Policy


@dataclass(frozen=True)
class Export:
    """Write a policy as an ONNX graph, or as one Python file that needs only NumPy.

    Observations and actions are in the units of the recordings: the file also normalises the
    observations and scales the actions. Before a file is put in place it is run on observations. It
    is refused if its actions differ from the policy's by more than 1e-5 of their range. Beside
    policy.onnx lies policy_contract.json, with the names, units, order and bounds of all numbers.

    Example:
        lobsdice export runs/mine --onnx policy.onnx
        lobsdice export runs/mine --which best --run 2 --numpy policy.py --observations logs.npz
    """

    path: Positional[Path]
    """Run folder, or policy file."""
    onnx: Path | None = None
    """ONNX file to write, with the ending .onnx."""
    numpy: Path | None = None
    """Python file to write, with the ending .py."""
    stochastic: bool = False
    """Give the ONNX graph a second input, `noise`, to sample actions with. (The function in the
    Python file can always take a random generator.)"""
    which: Which = "last"
    """Policy of the last step, of the best return, or the one that was selected offline."""
    number: RunNumber = None
    """Number of a run in the folder. Without it, the first."""
    observations: str | None = None
    """Recording with observations to check the file on. Without it, the recordings that the run
    was trained on or, if they are gone, random observations with the same mean and deviation."""
    units: Annotated[tuple[str, ...], arg(metavar="NAME=UNIT...")] = ()
    """Units of observed quantities and actions for the contract, such as `speed=m/s`. A name like
    `speed [m/s]` has its own."""
    rate: float | None = None
    """Actions a second, for the contract."""
    force: bool = False
    """Replace files that exist."""
    json: bool = False
    """Print JSON instead of lines."""
    read: ReadOptions = DEFAULTS

    def __call__(self) -> None:
        self.check_paths()
        policy = policy_of(self.path, self.which, self.number)
        self.check_contracts(policy)
        facts: Any = {"units": self.named_units(), "rate": self.rate}
        source, rows = self.rows(policy)
        differences = {}
        with console.waiting("Exporting"):
            if self.onnx is not None:
                found = export_onnx(policy, self.onnx, rows, stochastic=self.stochastic, **facts)
                differences[str(self.onnx)] = found
            if self.numpy is not None:
                differences[str(self.numpy)] = export_numpy(policy, self.numpy, rows, **facts)
        if self.json:
            named = [str(path) for path in self.contracts()]
            return output.print_json(
                {"differences": differences, "observations": source, "contracts": named}
            )
        for path, found in differences.items():
            console.show(
                f"wrote {path}: agrees with the policy to {found:.1e} of the actions' range"
            )
        for path in self.contracts():
            console.show(f"wrote {path}: {described(read_contract(path))}")
        console.show(f"observations: {source}")

    def contracts(self) -> list[Path]:
        """Return the contracts of the files; files of one name share one."""
        named = (self.onnx, self.numpy)
        return list(dict.fromkeys(contract_path(path) for path in named if path is not None))

    def check_contracts(self, policy: Policy) -> None:
        """Raise if a contract of another policy would be replaced."""
        for path in self.contracts():
            if read_contract(path).get("policy") != fingerprint(policy):
                refuse_existing([path], force=self.force)

    def named_units(self) -> dict[str, str]:
        """Return the units by the names of their quantities."""
        if wrong := [pair for pair in self.units if "=" not in pair]:
            raise LobsDICEError(f"--units has {wrong[0]!r}; write it as NAME=UNIT")
        return {name: unit for name, _, unit in (pair.rpartition("=") for pair in self.units)}

    def check_paths(self) -> None:
        """Raise unless there is something to write, and nothing in the way."""
        named = [path for path in (self.onnx, self.numpy) if path is not None]
        if not named:
            raise LobsDICEError("name what to write: --onnx FILE, --numpy FILE or both")
        refuse_existing(named, force=self.force)
        refuse_overwriting([str(self.path)], [*named, *self.contracts()])
        for option, path, ending in (("onnx", self.onnx, ".onnx"), ("numpy", self.numpy, ".py")):
            if path is not None and path.suffix.lower() != ending:
                raise LobsDICEError(f"--{option} writes a file that ends in {ending}, not {path}")

    def rows(self, policy: Policy) -> tuple[str, np.ndarray]:
        """Return where the observations to check with come from, and the observations."""
        if self.observations is not None:
            return self.observations, read_unlabelled([self.observations], self.read).observations
        recipe = recipe_of(self.path)
        if recipe is None or not (paths := recipe.files()):
            return "random, for there is no recording", likely_observations(policy)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # said when the run was trained
            # Files may be larger than memory, and stay on the disk.
            found = [thinned(read_unlabelled([path], recipe.read).observations) for path in paths]
        return ", ".join(paths), np.concatenate(found)


def thinned(rows: np.ndarray) -> np.ndarray:
    """Return as many of the rows as a check needs, evenly spaced."""
    return rows[:: -(-len(rows) // ENOUGH)]


def described(contract: Mapping[str, Any]) -> str:
    """Return what a contract holds, and the options that would add what it lacks."""
    parts = [*contract["observation"]["components"], *contract["action"].get("components", [])]
    # Quantities without names cannot be given units.
    no_units = any(part["unit"] is None and part["name"] is not None for part in parts)
    lacking = {"--rate": contract["rate_hz"] is None, "--units": no_units}
    options = [option for option, lacks in lacking.items() if lacks]
    known = "names, order, bounds, versions and checksums"
    return f"{known}; {' and '.join(options)} would add to it" if options else known
