"""A producer that delivers its own commits, made of a bare client: no part of this library."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from resolver.protocol import (
    Element,
    Half,
    HalfId,
    Names,
    Op,
    Record,
    StoredHalf,
    TransactionStatus,
    commit_record,
)
from tests.support.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]


class FastProducer:
    """Stores halves that name its fast id, and delivers their messages itself.

    `transaction_seconds` is when Kafka ends its open transaction: longer than any test waits.
    """

    def __init__(
        self, options: dict[str, Any], names: Names, group: str, transaction_seconds: int = 900
    ) -> None:
        self.names = names
        self.group = group
        self.fast_id = names.fast_id(group, uuid.uuid4().hex)
        self._plain = Producer({**options, "acks": "all"})
        ours = {
            "transactional.id": self.fast_id,
            "transaction.timeout.ms": transaction_seconds * 1_000,
        }
        self.client = Producer({**options, **ours})
        self.client.init_transactions(PATIENCE_SECONDS)

    def half(self, topic: str, queue: int = 0, **fields: Any) -> StoredHalf:
        """Store a half; it is immune unless `immunity_seconds` says otherwise."""
        immune = {"immunity_seconds": 3_600, **fields}
        transaction_id, now_ms = uuid.uuid4().hex, time.time_ns() // 1_000_000
        half = Half(
            transaction_id,
            self.group,
            topic,
            now_ms,
            None,
            transaction_id.encode(),
            [],
            fast_id=self.fast_id,
            **immune,
        )
        stored: list[Any] = []
        record = half.to_record(self.names.half, queue)
        produce(self._plain, record, on_delivery=lambda error, message: stored.append(message))
        assert self._plain.flush(PATIENCE_SECONDS) == 0
        (message,) = stored
        assert message.error() is None
        at_ms = message.timestamp()[1]
        return StoredHalf(queue, message.offset(), at_ms, half, record.headers)

    def begin(self, *halves: StoredHalf, delivered: bool = True) -> None:
        """Open a transaction with the halves' messages and their ops; all are stored then."""
        self.client.begin_transaction()
        for at in halves:
            produce(self.client, commit_record(at))
            produce(self.client, self.op(at, delivered=delivered))
        assert self.client.flush(PATIENCE_SECONDS) == 0

    def commit(self, *halves: StoredHalf) -> None:
        """Deliver the halves' messages."""
        self.begin(*halves)
        self.client.commit_transaction(PATIENCE_SECONDS)

    def op(self, at: StoredHalf, **fields: Any) -> Record:
        """Return an op that commits a half."""
        element = Element(0, at.offset, at.half.transaction_id)
        op = Op(TransactionStatus.COMMIT_MESSAGE, at.half.group, (element,), **fields)
        return op.to_record(self.names.op, at.queue)


def produce(producer: Producer, record: Record, **options: Any) -> None:
    producer.produce(
        record.topic,
        record.value,
        record.key,
        record.partition,
        headers=list(record.headers),
        **options,
    )


@contextmanager
def sleeping(bootstrap: str, prefix: str, topic: str) -> Iterator[HalfId]:
    """Let another process open a transaction of a half, and sleep in it by SIGSTOP."""
    command = [sys.executable, "-m", __name__, bootstrap, prefix, topic]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield HalfId(0, int(process.stdout.readline()))
        finally:
            process.kill()


if __name__ == "__main__":
    import os
    import signal

    bootstrap, prefix, topic = sys.argv[1:]
    producer = FastProducer({"bootstrap.servers": bootstrap}, Names(prefix), "orders")
    opened = producer.half(topic)
    producer.begin(opened)
    print(opened.offset, flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
