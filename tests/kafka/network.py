"""A delivery whose only way to Kafka is a proxy."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace

import msgpack
import orjson
from confluent_kafka import Producer

from resolver.broker import Broker
from resolver.kafka.clients import admin_client
from resolver.kafka.topics import ensure_topics
from resolver.protocol import Half, Names, QuarantineReason, Refused, StoredHalf, check_record
from resolver.resolve.delivery import Delivery
from resolver.resolve.delivery.packed import DecisionRecords, Output, as_output
from resolver.settings import Settings
from tests.support.patience import wait_until
from tests.support.reading import end_offsets

from .kafka_proxy import Fate, KafkaProxy
from .real_topic import commit, make_real, values

Judge = Callable[[int, bytes], Fate]


def packed(decisions: list[DecisionRecords]) -> list[bytes]:
    """Pack decisions as the workers do."""
    return [msgpack.packb(decisions)]


class Network:
    """Topics of an own prefix, and a delivery whose only way to Kafka is a proxy."""

    def __init__(self, broker: Broker, prefix: str) -> None:
        self.settings = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=prefix, queues=1)
        ensure_topics(admin_client(self.settings), self.settings, ["orders"])
        self.names = Names(prefix)
        self.real = make_real(self.settings, f"real-{uuid.uuid4().hex[:8]}")
        self.judge: Judge = lambda request, frame: Fate.FORWARD
        # Not `self.judge` itself: a test puts another one there.
        judge: Judge = lambda request, frame: self.judge(request, frame)  # noqa: E731, PLW0108
        self.proxy = KafkaProxy(broker.bootstrap, judge)
        self._stored_at_ms = time.time_ns() // 1_000_000

    def close(self) -> None:
        self.proxy.close()

    def delivery(self) -> Delivery:
        settings = replace(self.settings, bootstrap_servers=self.proxy.address)
        return Delivery(settings, "checkpoint")

    def decided(self, number: int) -> list[DecisionRecords]:
        """Return what a batch decided: ten commits."""
        offsets = range(10 * number, 10 * number + 10)
        return [commit(self.real, at, self._stored_at_ms, self.names) for at in offsets]

    def batch(self, number: int) -> list[bytes]:
        return packed(self.decided(number))

    def checks(self) -> list[Output]:
        """Return the first two checks of a half."""
        half = Half("id", "orders", self.real, 7, None, b"x", [])
        at = StoredHalf(0, 100, 7, half, half.to_record(self.names.half).headers)
        return [as_output(check_record(at, number, self.names)) for number in (1, 2)]

    def refusals(self) -> list[Output]:
        """Return a refused record, and a refused element of it."""
        reason = QuarantineReason.MALFORMED_OP
        refused = [Refused("op:0:7", element, reason, "", None, b"x", []) for element in (None, 1)]
        return [as_output(one.to_record(self.names, 1_000_000)) for one in refused]

    def holds_once(self, *batches: int) -> bool:
        """Whether messages and outcomes of these batches are there, each once, and no others."""
        offsets = [10 * number + at for number in batches for at in range(10)]
        outcomes = [
            orjson.loads(value or b"") for value in values(self.settings, self.names.resolution)
        ]
        said = [(outcome["offset"], outcome["outcome"]) for outcome in outcomes]
        delivered = sorted(int(value or b"") for value in values(self.settings, self.real))
        return delivered == offsets and sorted(said) == [(at, "COMMIT") for at in offsets]

    def show_the_end_behind(self, stranger: Producer) -> None:
        """Abort another application's transaction on the real topic."""
        stranger.abort_transaction(30)
        options = {"bootstrap.servers": self.settings.bootstrap_servers}
        end = end_offsets(options, self.real, [0], "read_uncommitted")
        wait_until(lambda: end_offsets(options, self.real, [0], "read_committed") == end)

    def stored(self) -> int:
        """Return how many records are there, of open transactions too."""
        options = {"bootstrap.servers": self.settings.bootstrap_servers}
        topics = (self.real, self.names.resolution)
        return sum(end_offsets(options, topic, [0], "read_uncommitted")[0] for topic in topics)
