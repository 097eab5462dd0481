"""A consumer of committed records, in a process of its own: when each became visible."""

from __future__ import annotations

import argparse
import json
import time
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from resolver.bench.load import GROUP
from resolver.protocol import Names, decode_resolution
from resolver.protocol.names import HALF_OFFSET, UNIQ_KEY

_QUIET_SECONDS = 60.0


def watch(
    bootstrap: str, names: Names, topic: str, count: int, messages_only: bool = False
) -> dict[str, float]:
    """Read `count` messages and their outcomes; return figures in seconds and a count."""
    consumer = _consumer(bootstrap, [topic] if messages_only else [topic, names.resolution])
    visible: dict[str, float] = {}
    ended: dict[str, float] = {}
    doubled = 0
    last = time.monotonic()
    outcomes = 0 if messages_only else count
    while len(visible) < count or len(ended) < outcomes:
        if time.monotonic() - last > _QUIET_SECONDS:
            break
        messages = consumer.consume(10_000, 0.05)
        now = time.time()
        for message in messages:
            last = time.monotonic()
            if message.topic() == topic:
                transaction_id = _header(message, UNIQ_KEY)
                doubled += transaction_id in visible
                visible.setdefault(transaction_id, now)
            else:
                said = decode_resolution(message.value())
                ended[said.transaction_id] = (said.ended_at or 0) / 1_000
    consumer.close()
    waits = sorted(visible[at] - ended[at] for at in visible.keys() & ended.keys())
    return {
        "delivered": len(visible),
        "doubled": doubled,
        "p50": waits[len(waits) // 2] if waits else 0.0,
        "p99": waits[len(waits) * 99 // 100] if waits else 0.0,
        "worst": waits[-1] if waits else 0.0,
    }


def late_checks(bootstrap: str, names: Names, count: int, timeout_ms: int) -> list[float]:
    """Return for `count` halves how long after its time each one's first check was visible (s)."""
    halves = _consumer(bootstrap, [names.half])
    due: dict[str, float] = {}
    while len(due) < count:
        for message in halves.consume(count, 1.0):
            stored_at_ms = message.timestamp()[1]
            due[f"{message.partition()}:{message.offset()}"] = (stored_at_ms + timeout_ms) / 1_000
    halves.close()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    until = time.monotonic() + _QUIET_SECONDS
    while names.check(GROUP) not in admin.list_topics(timeout=30).topics:
        if time.monotonic() > until:
            raise RuntimeError("no check was sent")
    checks = _consumer(bootstrap, [names.check(GROUP)])
    late: dict[str, float] = {}
    while len(late) < count and time.monotonic() < until:
        for message in checks.consume(count, 0.05):
            at = _header(message, HALF_OFFSET)
            late.setdefault(at, time.time() - due[at])
    checks.close()
    return list(late.values())


def _header(message: Message, name: str) -> str:
    value = dict(message.headers() or [])[name]
    return value.decode() if isinstance(value, bytes) else str(value)


def _consumer(bootstrap: str, topics: list[str]) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign(
        [
            TopicPartition(topic, partition, OFFSET_BEGINNING)
            for topic in topics
            for partition in consumer.list_topics(topic, 30).topics[topic].partitions
        ]
    )
    return consumer


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--messages-only", action="store_true")
    given = parser.parse_args()
    names = Names(given.prefix)
    figures = watch(given.bootstrap_servers, names, given.topic, given.count, given.messages_only)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
