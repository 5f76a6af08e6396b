"""The contract of an exported policy: what goes in, what comes out, and which file it is about.

`policy.onnx` and `policy.py` share `policy_contract.json`, which lies beside them.
"""

import hashlib
import json
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from lobsdice import __version__
from lobsdice.data.files import atomic
from lobsdice.data.spaces import Box
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import Policy

#: The version of the contract's layout.
LAYOUT = 1
#: A unit at the end of a name: `speed [m/s]` or `speed (m/s)`.
UNIT = re.compile(r"[\[(]([^\[\]()]+)[\])]\s*$")

#: The units of observed quantities and of actions by their names.
Units = Mapping[str, str]
NO_UNITS: Units = MappingProxyType({})


def contract_path(export: Path) -> Path:
    """The contract of an exported file: `policy_contract.json` for `policy.onnx`."""
    return export.with_name(f"{export.stem}_contract.json")


def write_contract(policy: Policy, export: Path, units: Units, rate: float | int | None) -> Path:
    """Write the contract of a file that was exported.

    Other exports of the policy stay in it, and so do units and the rate, unless others are given.
    """
    path = contract_path(export)
    files = {export.name: _sha256(export.read_bytes())}
    found = read_contract(path)
    if found.get("policy") == fingerprint(policy):
        files = _mapping(found.get("files")) | files
        units = _units_of(found) | {**units}
        rate = _rate_of(found) if rate is None else rate
    text = json.dumps(contract(policy, units, rate) | {"files": files}, indent=2, allow_nan=False)
    with atomic(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    return path


def read_contract(path: Path) -> dict[str, Any]:
    """The contract in a file; nothing if there is none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def contract(policy: Policy, units: Units, rate: float | int | None) -> dict[str, Any]:
    """The contract without the files."""
    check_facts(policy, units, rate)
    return {
        "layout": LAYOUT,
        "observation": {"type": "float32", "components": _observed(policy, units)},
        "action": _action(policy, units),
        "rate_hz": rate,
        "policy": fingerprint(policy),
        "versions": {
            "lobsdice": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def fingerprint(policy: Policy) -> str:
    """The SHA-256 of the policy's own file."""
    return _sha256(policy.to_bytes())


def check_facts(policy: Policy, units: Units, rate: float | int | None) -> None:
    """Raise if a unit belongs to no name, or if the rate is not a positive number."""
    names = {*policy.normaliser.names, *policy.action_space.names}
    if wrong := [name for name in units if name not in names]:
        known = ", ".join(sorted(names))
        known = f"its names are: {known}" if known else "it has none, as its recordings had none"
        raise LobsDICEError(f"`units` names {wrong[0]!r}, which is no name of the policy; {known}")
    if rate is not None and not 0 < rate < float("inf"):
        raise LobsDICEError(f"`rate` is {rate}; it must be a positive number of actions a second")


def _mapping(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _units_of(found: Mapping[str, Any]) -> dict[str, str]:
    """The units in a contract, by the names of their quantities."""
    action = _mapping(found.get("action"))
    observation = _mapping(found.get("observation"))
    parts = [*(observation.get("components") or ()), *(action.get("components") or ())]
    named = {part.get("name"): part.get("unit") for part in map(_mapping, parts)}
    return {name: unit for name, unit in named.items() if name and unit}


def _rate_of(found: Mapping[str, Any]) -> float | int | None:
    rate = found.get("rate_hz")
    return rate if isinstance(rate, float | int) else None


def _observed(policy: Policy, units: Units) -> list[dict[str, Any]]:
    mean, scale, names = policy.normaliser
    return [
        _named(names, i, units) | {"mean": float(mean[i]), "deviation": float(scale[i])}
        for i in range(len(mean))
    ]


def _action(policy: Policy, units: Units) -> dict[str, Any]:
    space = policy.action_space
    if not isinstance(space, Box):
        names = list(space.names) or None
        return {"type": "int64", "kind": "discrete", "count": space.n, "names": names}
    components = [
        _named(space.names, i, units) | {"low": low, "high": high}
        for i, (low, high) in enumerate(zip(space.low, space.high, strict=True))
    ]
    return {"type": "float32", "kind": "continuous", "components": components}


def _named(names: tuple[str, ...], place: int, units: Units) -> dict[str, Any]:
    """The place, the name and the unit of a component; null where they are not known."""
    if not names:
        return {"place": place, "name": None, "unit": None}
    name, found = names[place], UNIT.search(names[place])
    unit = units.get(name, found and found[1].strip())
    return {"place": place, "name": name, "unit": unit}


def _sha256(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()
