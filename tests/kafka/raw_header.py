"""A record with a header name that is no text: confluent_kafka refuses it, other clients do not.

The request is written here by hand, as https://kafka.apache.org/protocol describes it.
"""

from __future__ import annotations

import socket
import struct
import time

_PRODUCE, _VERSION = 0, 7
_TIMEOUT_MS = 30_000
_CRC32C = 0x82F63B78  # the polynomial, its bits reversed


def write_with_header(bootstrap: str, topic: str, name: bytes) -> None:
    """Write a record to partition 0, whose leader must be `bootstrap`."""
    batch = _batch(_record(name, b"v"), time.time_ns() // 1_000_000)
    request = struct.pack(">hhih", _PRODUCE, _VERSION, 1, -1)  # correlation id, no client id
    request += struct.pack(">hhi", -1, -1, _TIMEOUT_MS)  # no transactional id, acks=all
    request += struct.pack(">ih", 1, len(topic)) + topic.encode()
    request += struct.pack(">iii", 1, 0, len(batch)) + batch
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), _TIMEOUT_MS / 1_000) as broker:
        broker.sendall(struct.pack(">i", len(request)) + request)
        answer = broker.makefile("rb").read(4 + 4 + 4 + 2 + len(topic) + 4 + 4 + 2)
    assert int.from_bytes(answer[-2:], "big") == 0, answer


def _record(name: bytes, value: bytes) -> bytes:
    """Return a record without key and value, with one header; no length has more than 6 bits."""
    header = bytes([1 << 1, len(name) << 1]) + name + bytes([len(value) << 1]) + value
    null = 1  # -1 as a varint
    record = bytes([0, 0, 0, null, null]) + header
    return bytes([len(record) << 1]) + record


def _batch(record: bytes, at_ms: int) -> bytes:
    body = struct.pack(">hiqqqhii", 0, 0, at_ms, at_ms, -1, -1, -1, 1) + record
    checked = struct.pack(">ibI", -1, 2, _crc32c(body)) + body
    return struct.pack(">qi", 0, len(checked)) + checked


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_CRC32C if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
