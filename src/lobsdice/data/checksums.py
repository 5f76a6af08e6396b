"""Checksums of a safetensors file: of its arrays, and of the facts in its metadata.

They stand among the facts, because the order of several texts in the metadata is left to chance.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from lobsdice.data.foreign import check_claim, json_object, require_file

#: The key of the facts that holds the checksums.
CHECKSUMS = "checksums"
#: The name of the facts' own checksum. No array has it.
FACTS = ""


def with_checksums(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Facts as plain data, with the checksums of all."""
    sums = {name: array_checksum(name, array) for name, array in sorted(arrays.items())}
    return {**facts, CHECKSUMS: sums | {FACTS: _facts_checksum(facts)}}


def read_checked(path: str | Path, key: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The facts under a key of a file's metadata, and its arrays, checked against their checksums.

    Raises one of many errors if the file is damaged or somebody else's; nothing is unpickled.
    """
    size = require_file(Path(path))
    check_claim("the file", size, size)
    with safe_open(path, framework="numpy") as file:
        facts = json_object((file.metadata() or {})[key])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    check_all(facts, arrays)
    return facts, arrays


def check_facts(facts: Mapping[str, Any]) -> dict[str, str] | None:
    """The checksums of the arrays, or None if an earlier version wrote the file.

    Raises a ValueError if the facts do not fit their checksum.
    """
    if CHECKSUMS not in facts:
        return None
    sums = dict(facts[CHECKSUMS])
    rest = {name: fact for name, fact in facts.items() if name != CHECKSUMS}
    if sums.pop(FACTS, None) != _facts_checksum(rest):
        raise ValueError("its metadata differ from their checksum")
    return sums


def check_all(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Raise a ValueError if facts or arrays do not fit their checksums, as far as there are any."""
    if (sums := check_facts(facts)) is None:
        return
    for name, array in arrays.items():
        check_array(sums, name, array)


def check_array(sums: Mapping[str, str], name: str, array: np.ndarray) -> None:
    """Raise a ValueError if an array does not fit its checksum."""
    if sums.get(name) != array_checksum(name, array):
        raise ValueError(f"{name} differs from its checksum")


def array_checksum(name: str, array: np.ndarray) -> str:
    """The checksum of an array with its name, type and shape."""
    return checksum(f"{name} {array.dtype} {array.shape} ".encode(), array)


def checksum(*parts: Any) -> str:
    """The checksum of bytes or arrays, one after the other."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(np.ascontiguousarray(part).data if isinstance(part, np.ndarray) else part)
    return digest.hexdigest()


def _facts_checksum(facts: Mapping[str, Any]) -> str:
    return checksum(json.dumps(facts, sort_keys=True).encode())
