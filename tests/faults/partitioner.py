"""Java's default partitioning, implemented once more: the resolver leaves it to librdkafka."""

from __future__ import annotations

import struct

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF


def java_partition(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's Java client puts a key in, an empty one too."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    whole = len(data) // 4
    hashed = _SEED ^ len(data)
    for word in struct.unpack_from(f"<{whole}I", data):
        hashed = _times(hashed) ^ _times(_shifted(_times(word), 24))
    if rest := data[4 * whole :]:
        hashed = _times(hashed ^ int.from_bytes(rest, "little"))
    return _shifted(_times(_shifted(hashed, 13)), 15)


def _times(number: int) -> int:
    return number * _FACTOR & _MASK


def _shifted(number: int, bits: int) -> int:
    return number ^ number >> bits
