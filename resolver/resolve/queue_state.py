"""A queue's state, which Spark keeps between batches: one map of bytes.

The step has its own keys there. The processor has one, `seen`: the records read last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgpack
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from .lost_records import Seen
from .step import Changes

# Types, not text: the JVM would parse text again in each task.
_KEY = StructType([StructField("key", StringType())])
_VALUE = StructType([StructField("value", BinaryType())])
#: Key of the records read last, in the state beside the step's own keys.
_SEEN = "seen"


class QueueState(Mapping[str, bytes]):
    """A queue's map state, as the step reads it."""

    def __init__(self, state: Any) -> None:
        self._state = state

    @classmethod
    def open(cls, handle: StatefulProcessorHandle) -> QueueState:
        """Return the state of the queue that Spark calls the processor for."""
        return cls(handle.getMapState("state", _KEY, _VALUE))

    def __getitem__(self, key: str) -> bytes:
        value = self._state.getValue((key,))
        if value is None:
            raise KeyError(key)
        return bytes(value[0])

    def __iter__(self) -> Iterator[str]:
        return (key for (key,) in self._state.keys())  # noqa: SIM118 - Spark's MapState is no dict

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def seen(self) -> dict[str, Seen]:
        """Return the record read last from each of the queue's topics."""
        packed = self.get(_SEEN, b"\x80")
        return {topic: Seen(*record) for topic, record in msgpack.unpackb(packed).items()}

    def apply(self, changes: Changes) -> None:
        """Write the changes of a step."""
        for key, value in changes.items():
            if value is None:
                self._state.removeKey((key,))
            else:
                self._state.updateValue((key,), (value,))

    def keep_seen(self, seen: dict[str, Seen]) -> None:
        """Write the record read last from each of the queue's topics."""
        self._state.updateValue((_SEEN,), (msgpack.packb(seen),))
