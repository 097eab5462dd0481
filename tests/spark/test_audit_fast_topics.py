"""The audit of messages that their producers delivered, in their real topic."""

from __future__ import annotations

from dataclasses import replace

from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from pyspark.sql import SparkSession

from resolver.audit.job import audited
from resolver.audit.report import Invariant
from resolver.kafka.clients import admin_client
from resolver.kafka.topic_admin import await_topics
from resolver.protocol import (
    FAST_DELIVERY,
    Half,
    Record,
    Resolution,
    StoredHalf,
    commit_record,
    revoked_record,
)
from tests.support.patience import PATIENCE_SECONDS

from .ledger import Ledger
from .records import half, op, resolution

QUEUE = 0
#: Halves of one fast id, by what becomes of them; the last one has no fast id.
FAST, SECOND, UNLANDED, SLOW = range(4)


class Story:
    """Halves in the order of their offsets, and their real topic."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.names = ledger, ledger.names
        self.topic = f"real-{self.names.prefix}"
        admin = admin_client(ledger.settings)
        # Its messages have times of their own: they say nothing of the half.
        config = {"message.timestamp.type": "LogAppendTime"}
        made = admin.create_topics([NewTopic(self.topic, 1, 1, config=config)])
        made[self.topic].result(PATIENCE_SECONDS)
        await_topics(admin, [self.topic])
        self.fast_id = self.names.fast_id("orders", "a")
        self.halves = [self._half(number) for number in range(4)]
        ledger.write(*[one.to_record(self.names.half, QUEUE) for one in self.halves])
        ledger.land()
        rows = {row["offset"]: row["stored_at"] for row in ledger.rows("half")}
        self.stored_ms = [round(rows[number].timestamp() * 1_000) for number in range(4)]

    def _half(self, number: int) -> Half:
        fast_id = None if number == SLOW else self.fast_id
        return half(f"id-{number}")._replace(topic=self.topic, fast_id=fast_id)

    def message(self, number: int) -> Record:
        sent = self.halves[number]
        headers = sent.to_record(self.names.half).headers
        return commit_record(StoredHalf(QUEUE, number, self.stored_ms[number], sent, headers))

    def delivered(self, *numbers: int) -> Record:
        ends = op(*[(number, f"id-{number}") for number in numbers])
        return replace(ends, delivered=True).to_record(self.names.op, QUEUE)

    def end(self, number: int, op_offset: int, batch: int) -> Record:
        [at] = [row for row in self.ledger.rows("op") if row["source_offset"] == op_offset]
        said: Resolution = resolution(queue=QUEUE, offset=number, op_offset=op_offset)._replace(
            transaction_id=f"id-{number}",
            topic=self.topic,
            stored_at=self.stored_ms[number],
            ended_at=round(at["stored_at"].timestamp() * 1_000),
            checks=0,
            answered=0,
            batch_id=batch,
            delivery=None if number == SLOW else FAST_DELIVERY,
        )
        return said.to_record(self.names.resolution)._replace(partition=0)

    def violations(self, spark: SparkSession) -> dict[Invariant, dict[str | None, str]]:
        self.ledger.land()
        report = audited(spark, self.ledger.settings, str(self.ledger.tables), True, 9)
        return {
            one.invariant: {example.half: example.detail for example in one.examples}
            for one in report.findings
            if one.violations
        }


def test_fast_messages_are_once_in_their_topic_and_may_be_there_before_their_outcome(
    ledger: Ledger, spark: SparkSession
) -> None:
    story = Story(ledger)
    slow = op((SLOW, f"id-{SLOW}")).to_record(story.names.op, QUEUE)
    # The one of the earlier op comes later: its resolver delivers it when it has read the op.
    ledger.write(slow, story.message(FAST), story.delivered(FAST), story.message(SECOND))
    ledger.write(story.delivered(SECOND), story.message(SLOW), story.message(UNLANDED))
    ledger.land()
    ledger.write(story.end(SLOW, 0, 1), story.end(FAST, 1, 2), story.end(SECOND, 2, 3))
    assert story.violations(spark) == {}

    ledger.write(story.message(FAST), revoked_record(story.names.op, QUEUE, story.fast_id, "x"))
    found = story.violations(spark)
    place = f"at {story.topic}:0:"
    assert found.keys() == {Invariant.DELIVERED, Invariant.NOT_DELIVERED}
    assert found[Invariant.DELIVERED] == {f"{QUEUE}:{FAST}": "2 messages"}
    assert found[Invariant.NOT_DELIVERED] == {
        f"{QUEUE}:{UNLANDED}": f"no outcome, and a message, {place}3"
    }


def test_the_messages_of_a_fast_id_stand_in_the_order_of_their_ops(
    ledger: Ledger, spark: SparkSession
) -> None:
    story = Story(ledger)
    ledger.write(story.message(SECOND), story.message(FAST))
    ledger.write(story.delivered(FAST), story.delivered(SECOND))
    ledger.land()
    ledger.write(story.end(FAST, 0, 1), story.end(SECOND, 1, 2))
    behind = f"ended by op {QUEUE}:0, behind a message of op {QUEUE}:1"
    assert story.violations(spark) == {Invariant.IN_ORDER: {f"{QUEUE}:{FAST}": behind}}
