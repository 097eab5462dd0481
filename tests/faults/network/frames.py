"""Kafka's frames: their length, the header of a request, and the error in an answer."""

from __future__ import annotations

import asyncio
import struct
import sys
from typing import NamedTuple

APIS = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    18: "ApiVersions",
    19: "CreateTopics",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    28: "TxnOffsetCommit",
    32: "DescribeConfigs",
    60: "DescribeCluster",
    75: "DescribeTopicPartitions",
}
NONE = "NONE"
END = "EndTxn"
ERRORS = {
    0: NONE,
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    # On a transaction's Produce: Kafka could not ask the coordinator whether it goes on.
    19: "NOT_ENOUGH_REPLICAS",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    46: "DUPLICATE_SEQUENCE_NUMBER",
    47: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    51: "CONCURRENT_TRANSACTIONS",
    59: "UNKNOWN_PRODUCER_ID",
    90: "PRODUCER_FENCED",
    120: "TRANSACTION_ABORTABLE",
}
#: Beyond that it is no frame of Kafka's: something else speaks on this connection.
_MOST_BYTES = 200_000_000
_LENGTH = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")
_ERROR = struct.Struct(">h")
#: From these versions on an answer has tags behind its header, and behind each of its parts.
_FLEXIBLE = {"Produce": 9, "AddPartitionsToTxn": 3, "TxnOffsetCommit": 3}


class Request(NamedTuple):
    """The header of a request."""

    api: str
    version: int
    correlation: int
    client: str

    @classmethod
    def of(cls, frame: bytes) -> Request:
        """Read it from a frame; the length comes first."""
        api, version, correlation, size = _HEADER.unpack_from(frame, _LENGTH.size)
        begin = _LENGTH.size + _HEADER.size
        client = frame[begin : begin + max(size, 0)].decode("utf-8", "replace")
        return cls(APIS.get(api, str(api)), version, correlation, client)


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Return the next frame with its length; raises `IncompleteReadError` at the end."""
    head = await reader.readexactly(_LENGTH.size)
    (size,) = _LENGTH.unpack(head)
    if not 0 <= size <= _MOST_BYTES:
        raise ConnectionError(f"a frame of {size} bytes is none of Kafka's")
    return head + await reader.readexactly(size)


def correlation_of(answer: bytes) -> int:
    """Return the number of the request that a frame answers."""
    (number,) = _CORRELATION.unpack_from(answer, _LENGTH.size)
    return int(number)


def error_of(request: Request, answer: bytes) -> str:
    """Return the error of an answer to a request of a transaction.

    Of one that tells it by partition, that of the last; of Produce, that of the first.
    """
    flexible = request.version >= _FLEXIBLE.get(request.api, sys.maxsize)
    if request.api in (END, "AddOffsetsToTxn"):  # behind correlation and throttle time
        position = _LENGTH.size + 8
    elif request.api in ("TxnOffsetCommit", "AddPartitionsToTxn"):
        position = len(answer) - _ERROR.size - (3 if flexible else 0)
    elif request.api == "Produce":
        position = _behind_partition(answer, flexible)
    else:
        return ""
    (code,) = _ERROR.unpack_from(answer, position)
    return ERRORS.get(code, str(code))


def _behind_partition(answer: bytes, flexible: bool) -> int:
    """Return where the first partition's error is: behind its topic's name and its number."""
    position = _LENGTH.size + _CORRELATION.size
    if flexible:  # tags, how many topics, a name's length plus 1; then how many partitions
        return position + 3 + (answer[position + 2] - 1) + 1 + 4
    (size,) = _ERROR.unpack_from(answer, position + 4)
    return position + 4 + 2 + int(size) + 4 + 4
