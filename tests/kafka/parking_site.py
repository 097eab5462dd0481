"""Topics of a test that parks: a real topic that only the second node has, and the lane."""

from __future__ import annotations

import time
import uuid

import msgpack
from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from resolver.broker import Broker
from resolver.kafka.clients import admin_client
from resolver.kafka.topic_specs import output_topics, queue_topics
from resolver.kafka.topics import ensure_topics
from resolver.protocol import (
    LANE_END,
    Half,
    Names,
    Outcome,
    Resolution,
    Source,
    StoredHalf,
    commit_record,
    decode_resolution,
    release_record,
)
from resolver.resolve.delivery.marker_group import MarkerGroup
from resolver.resolve.delivery.packed import DecisionRecords, as_output
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS
from tests.support.reading import committed_records, end_offsets, visible_records
from tests.support.second_node import SecondNode

from .real_topic import values

FIRST = 1


class ParkingSite:
    """A prefix of its own, a real topic that only the second node has, and one that stays well."""

    def __init__(self, first: Broker, second: SecondNode, prefix: str) -> None:
        self.settings = Settings(bootstrap_servers=first.bootstrap, topic_prefix=prefix, queues=1)
        self.names = Names(prefix)
        self.options = {"bootstrap.servers": first.bootstrap}
        self.node = second
        self.sick, self.well = (f"{what}-{uuid.uuid4().hex[:8]}" for what in ("sick", "well"))
        admin = AdminClient({"bootstrap.servers": first.bootstrap})
        halves, ops = queue_topics(self.settings)
        like = {**halves.config, **ops.config}
        specs = [halves, ops, *output_topics(self.settings, [], like, like)]
        topics = {spec.name: dict(spec.config) for spec in specs} | {self.well: {}}
        on_first = [
            NewTopic(name, 1, replica_assignment=[[FIRST]], config=config)
            for name, config in topics.items()
        ]
        for made in admin.create_topics(on_first).values():
            made.result(PATIENCE_SECONDS)
        second.make_topic(self.sick)
        ensure_topics(admin_client(self.settings), self.settings)
        #: Age in ms of the halves that are made next.
        self.age_ms = 0
        self._offset = 0

    def batch(self, *topics: str) -> list[bytes]:
        """Return decisions: for each topic a commit, with the next half's offset as its value."""
        begin, self._offset = self._offset, self._offset + len(topics)
        places = enumerate(topics, begin)
        return [msgpack.packb([self.commit(offset, topic, "q") for offset, topic in places])]

    def commit(self, offset: int, topic: str, query: str) -> DecisionRecords:
        """Return a commit as the checkpoint with this query decides it."""
        half = Half(str(offset), "orders", topic, 0, b"key", str(offset).encode(), [("a", None)])
        stored_at_ms = time.time_ns() // 1_000_000 - self.age_ms
        headers = half.to_record(self.names.half, 0).headers
        at = StoredHalf(0, offset, stored_at_ms, half, headers)
        said = Resolution(
            transaction_id=str(offset), queue=0, offset=offset, outcome=Outcome.COMMIT,
            source=Source.END, group="orders", topic=topic, op_offset=0, checks=0, answered=0,
            born_at=0, stored_at=stored_at_ms, ended_at=0, decided_at=0, batch_id=0,
            query_id=query,
        )  # fmt: skip
        outcome = as_output(said.to_record(self.names.resolution))
        return DecisionRecords(as_output(commit_record(at)), outcome, msgpack.packb(at.all_headers))

    def store_halves(self) -> None:
        """Let the half topic have a record at each offset that was used."""
        producer = Producer({"bootstrap.servers": self.settings.bootstrap_servers})
        for _ in range(self._offset):
            producer.produce(self.names.half, partition=0)
        assert producer.flush(PATIENCE_SECONDS) == 0

    def delete_before(self, topic: str, offset: int) -> None:
        place = TopicPartition(topic, 0, offset)
        admin = admin_client(self.settings)  # the client has to live until it has answered
        admin.delete_records([place])[place].result(PATIENCE_SECONDS)

    def lane(self) -> int:
        """Return the lane's offset in the marker."""
        group = MarkerGroup(self.settings)
        found = group.read()
        group.close()
        assert found is not None and found.lane is not None
        return found.lane

    def delivered(self, topic: str) -> list[int]:
        """Return the offsets of the halves of which a topic has the messages, in its order."""
        return [int(value) for value in self.values(topic)]

    def visible(self, topic: str) -> list[int]:
        """Return the same of what is visible now, though a transaction may be open."""
        return [int(message.value() or b"") for message in visible_records(self.options, topic)]

    def await_visible(self) -> None:
        """Wait until the node has ended all transactions.

        Kafka 4.3.1 would never end them there if the node went before (KAFKA-20734).
        """
        committed_records(self.options, self.sick)

    def outcomes(self) -> list[int]:
        """Return the offsets of the halves that have an outcome, in order."""
        said = map(decode_resolution, self.values(self.names.resolution))
        return sorted(one.offset for one in said)

    def lane_end(self) -> int:
        """Return the end of the lane now."""
        return end_offsets(self.options, self.names.parked, isolation="read_uncommitted")[0]

    def parked(self) -> list[Message]:
        """Return the records of the lane, without those that mark its end."""
        marks = release_record(LANE_END, self.names).value
        found = committed_records(self.options, self.names.parked)
        return [message for message in found if message.value() != marks]

    def values(self, topic: str) -> list[bytes]:
        return [value or b"" for value in values(self.settings, topic)]
