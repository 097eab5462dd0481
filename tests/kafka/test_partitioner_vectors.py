"""The partitions in docs/protocol-vectors.json are Java's; librdkafka must pick the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from resolver.broker import Broker
from tests.support.patience import PATIENCE_SECONDS

VECTORS = json.loads(
    (Path(__file__).parents[2] / "docs" / "protocol-vectors.json").read_text(encoding="utf-8")
)["partitions"]["keys"]
PARTITIONS = 12


@pytest.mark.gate
def test_librdkafka_picks_the_partitions_that_java_does(kafka: Broker, prefix: str) -> None:
    topic = f"{prefix}real"
    servers: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap}
    admin = AdminClient(servers)
    made = admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    made[topic].result(PATIENCE_SECONDS)
    found: dict[bytes, int] = {}

    def stored(error: Any, message: Any) -> None:
        assert error is None, error
        found[message.key()] = message.partition()

    producer = Producer(servers | {"partitioner": "murmur2_random", "acks": "all"})
    expected = {}
    for vector in VECTORS:
        key = vector["key"]
        as_bytes = bytes.fromhex(key["hex"]) if isinstance(key, dict) else key.encode()
        expected[as_bytes] = vector["partitions"][str(PARTITIONS)]
        producer.produce(topic, b"", as_bytes, on_delivery=stored)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert found == expected
