"""TFRecord files of tf.train.Example, read and written without TensorFlow.

A record is its length (8 bytes), the checksum of the length (4 bytes), its bytes, and their
checksum (4 bytes). The checksum is CRC-32C, masked as in TensorFlow's `core/lib/hash/crc32c.h`. An
Example is a message of Protocol Buffers: a map from names to lists of bytes, floats or integers.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8, UInt32

from lobsdice.errors import LobsDICEError

#: The polynomial of CRC-32C, its bits reversed.
POLYNOMIAL = 0x82F63B78
#: What is added to a checksum that was rotated by 15 bits.
MASK = 0xA282EAD8
#: Bytes of a block of a checksum. Blocks are summed side by side, and then put together.
BLOCK = 256

#: The kinds of values in a feature, by the number of their field.
BYTES, FLOATS, INTEGERS = 1, 2, 3

Values = np.ndarray | list[bytes]


# ---- Checksums ----


@cache
def _table() -> UInt32[np.ndarray, "256"]:
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = (values >> 1) ^ np.where(values & 1, np.uint32(POLYNOMIAL), np.uint32(0))
    return values


def _shifted(
    sums: UInt32[np.ndarray, " n"], operator: UInt32[np.ndarray, "4 256"]
) -> UInt32[np.ndarray, " n"]:
    """The checksums after as many zero bytes as the operator stands for."""
    found = np.zeros_like(sums)
    for i in range(4):
        found ^= operator[i][(sums >> np.uint32(8 * i)) & np.uint32(255)]
    return found


@cache
def _zeros(power: int) -> UInt32[np.ndarray, "4 256"]:
    """The operator of 2^power zero bytes, which is linear: one table for each byte of a sum."""
    bytes_ = np.arange(256, dtype=np.uint32)
    each = np.stack([bytes_ << np.uint32(8 * i) for i in range(4)])
    if power == 0:
        return (each >> np.uint32(8)) ^ _table()[each & np.uint32(255)]
    before = _zeros(power - 1)
    return np.stack([_shifted(_shifted(row, before), before) for row in each])


def crc32c(content: bytes | memoryview) -> int:
    """The checksum CRC-32C of some bytes."""
    data = np.frombuffer(content, np.uint8)
    head, body = _padded(data)
    sums = _of_blocks(body)
    power = BLOCK.bit_length() - 1
    while len(sums) > 1:  # neighbours are put together, the first behind zeros
        if len(sums) % 2:
            sums = np.concatenate([np.zeros(1, np.uint32), sums])
        sums, power = _shifted(sums[::2], _zeros(power)) ^ sums[1::2], power + 1
    return int(sums[0] ^ _start(head)) ^ 0xFFFFFFFF


def _padded(data: UInt8[np.ndarray, " n"]) -> tuple[int, UInt8[np.ndarray, "BLOCK blocks"]]:
    """The number of bytes, and the bytes in columns of blocks, behind zeros that change nothing."""
    blocks = max(1, -(-len(data) // BLOCK))
    whole = np.zeros(blocks * BLOCK, np.uint8)
    whole[len(whole) - len(data) :] = data
    return len(data), np.ascontiguousarray(whole.reshape(blocks, BLOCK).T)


def _of_blocks(columns: UInt8[np.ndarray, "size blocks"]) -> UInt32[np.ndarray, " blocks"]:
    """The checksum of each block, if it starts at 0."""
    table, sums = _table(), np.zeros(columns.shape[1], np.uint32)
    for row in columns:
        sums = table[(sums ^ row) & np.uint32(255)] ^ (sums >> np.uint32(8))
    return sums


def _start(size: int) -> np.uint32:
    """The value that the start value, all ones, becomes behind so many bytes."""
    found = np.array([0xFFFFFFFF], np.uint32)
    for power in range(size.bit_length()):
        if size >> power & 1:
            found = _shifted(found, _zeros(power))
    return found[0]


def masked(content: bytes | memoryview) -> int:
    """The checksum as it is stored."""
    found = crc32c(content)
    return ((found >> 15 | found << 17) + MASK) & 0xFFFFFFFF


# ---- Records ----


def records(path: Path) -> Iterator[memoryview]:
    """Yield the records of a file; an error names the first damaged one."""
    size = path.stat().st_size
    with path.open("rb") as file:
        number = 0
        while head := file.read(12):
            where = f"{path.name}, record {number}"
            length = _length(head, where)
            if length > size:
                raise LobsDICEError(f"{where}: it claims to have {length:,} bytes, of {size:,}")
            content = file.read(length + 4)
            if len(content) < length + 4:
                raise LobsDICEError(f"{where}: the file ends in the middle of it")
            record = memoryview(content)[:length]
            if struct.unpack("<I", content[length:])[0] != masked(record):
                raise LobsDICEError(f"{where}: it is damaged, because its checksum is another one")
            yield record
            number += 1


def _length(head: bytes, where: str) -> int:
    if len(head) < 12 or struct.unpack("<I", head[8:])[0] != masked(head[:8]):
        raise LobsDICEError(f"{where}: its length is damaged, or the file holds no TFRecords")
    return struct.unpack("<Q", head[:8])[0]


def write_records(path: Path, contents: Iterable[bytes]) -> int:
    """Write records to a file; return the number of their bytes."""
    total = 0
    with path.open("wb") as file:
        for content in contents:
            head = struct.pack("<Q", len(content))
            file.write(head + struct.pack("<I", masked(head)))
            file.write(content + struct.pack("<I", masked(content)))
            total += len(content)
    return total


# ---- Examples ----


def parse_example(record: memoryview, wanted: Iterable[str]) -> dict[str, Values]:
    """The values of some features of an Example: float32 or int64 arrays, or lists of bytes."""
    keys, found = {*wanted}, {}
    for features in _messages(record, 1):
        for entry in _messages(features, 1):
            key = b"".join(bytes(text) for text in _messages(entry, 1)).decode()
            if key in keys:
                found[key] = _values(next(iter(_messages(entry, 2)), memoryview(b"")))
    return found


def _values(feature: memoryview) -> Values:
    for kind, content in _fields(feature):
        if kind == BYTES:
            return [bytes(text) for text in _messages(content, 1)]
        if kind == FLOATS:
            parts = [np.frombuffer(part, "<f4") for _, part in _fields(content)]
            return np.concatenate(parts) if parts else np.zeros(0, np.float32)
        if kind == INTEGERS:
            return _varints(b"".join(bytes(part) for _, part in _fields(content)))
    return np.zeros(0, np.float32)


def _messages(message: memoryview, number: int) -> Iterator[memoryview]:
    return (content for field, content in _fields(message) if field == number)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the number and the content of each field. A number alone is its bytes."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind, start = key & 7, place
        if kind == 2:
            size, start = _varint(message, place)
            place = start + size
        elif kind == 0:
            _, place = _varint(message, place)
        elif kind in (1, 5):
            place = start + (8 if kind == 1 else 4)
        else:
            raise LobsDICEError("a record holds something else than tf.train.Example")
        if place > len(message):
            raise LobsDICEError("a record holds an Example that is cut off")
        yield key >> 3, message[start:place]


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(message) and shift < 64:
        byte = message[place]
        place, value, shift = place + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, place
    raise LobsDICEError("a record holds an Example that is cut off")


def _varints(content: bytes) -> Int64[np.ndarray, " n"]:
    """All integers of a packed list, at once."""
    data = np.frombuffer(content, np.uint8)
    if not len(data):
        return np.zeros(0, np.int64)
    last = data < 128
    if not last[-1]:
        raise LobsDICEError("a record holds an Example that is cut off")
    owner = np.concatenate([[0], np.cumsum(last)[:-1]])
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    shift = 7 * (np.arange(len(data)) - starts[owner])
    if shift.max() > 63:
        raise LobsDICEError("a record holds an integer of more than 64 bits")
    parts = (data & 127).astype(np.uint64) << shift.astype(np.uint64)
    return np.add.reduceat(parts, starts).astype(np.int64)


def example(features: Mapping[str, Values]) -> bytes:
    """An Example with these features: floats, integers or bytes."""
    entries = b""
    for key, values in sorted(features.items()):
        entry = _field(1, key.encode()) + _field(2, _feature(values))
        entries += _field(1, entry)
    return _field(1, entries)


def _feature(values: Values) -> bytes:
    if isinstance(values, list):
        return _field(BYTES, b"".join(_field(1, text) for text in values))
    if values.dtype.kind == "f":
        return _field(FLOATS, _field(1, np.ascontiguousarray(values, "<f4").tobytes()))
    packed = b"".join(_encoded(int(value)) for value in values.ravel())
    return _field(INTEGERS, _field(1, packed))


def _field(number: int, content: bytes) -> bytes:
    return _encoded(number << 3 | 2) + _encoded(len(content)) + content


def _encoded(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
