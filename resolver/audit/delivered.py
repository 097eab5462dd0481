"""The real topics: their messages, and the transactions of these messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..errors import AuditError
from ..ledger import DISCARDED, PARKED, QUARANTINE, RESOLUTION
from ..ledger.reading import header_last, offset_of, queue_of
from ..protocol import names as n
from ..settings import Settings
from .copies import discard_events
from .halves import content
from .report import Invariant
from .rule import Rule, first_wrong, is_auditable, yes
from .snapshot import QueueEndOffsets, Snapshot
from .topics import Ranges, compacted, readable, records, stored
from .transactions import is_fast

#: A topic must have the messages that were decided after `kept_ms`; a topic without a row was not
#: read. A producer delivers a message before that: its half must be stored after `kept_fast_ms`.
KEPT = "topic string, kept_ms long, kept_fast_ms long"
_NEVER = 2**62


def real_topics(snapshot: Snapshot, prefix: str) -> set[str]:
    """Return the topics that halves name, without the resolver's own topics."""
    return {topic for topic in _named(snapshot["half"]) if not topic.startswith(prefix)}


def committed_topics(snapshot: Snapshot) -> set[str]:
    """Return the topics that must have messages."""
    return _named(snapshot["resolution"].where(F.col("outcome") == "COMMIT"))


def messages(spark: SparkSession, settings: Settings, ranges: Ranges) -> DataFrame:
    """Return queue, offset and struct `message` of each record that names its half."""
    headers = F.col("headers")
    half_id = header_last(n.HALF_OFFSET, headers)
    naming_halves = records(spark, settings, ranges).where(F.exists(headers, _names_its_half))
    # If the topic has LogAppendTime, the timestamp says nothing of the half.
    stamped = F.when(F.col("timestampType") == 0, F.unix_millis("timestamp"))
    message = F.struct(
        F.col("topic"),
        header_last(n.UNIQ_KEY, headers).alias("id"),
        F.col("partition"),
        F.col("offset"),
        stamped.alias("stamped_ms"),
        content(headers).alias("content"),
    )
    return naming_halves.select(
        queue_of(half_id).alias("queue"),
        offset_of(half_id).alias("offset"),
        message.alias("message"),
    )


def kept(
    spark: SparkSession,
    settings: Settings,
    ranges: Ranges,
    messages: DataFrame,
    snapshot: Snapshot,
) -> DataFrame:
    """Return `KEPT`: messages that Kafka has deleted, or compacted, are not missed.

    A partition's messages stand in the order in which they were decided. So each message decided
    after the first one that Kafka still has must be there too. A message that its producer
    delivered must be there if its half was stored after that first one's outcome was written.
    """
    never = (_NEVER, _NEVER)
    since = dict.fromkeys(ranges, (-1, -1)) | dict.fromkeys(compacted(settings, ranges), never)
    cut = [
        (topic, partition)
        for topic, partitions in ranges.items()
        for partition, (first, _) in partitions.items()
        if first > 0
    ]
    if cut:
        first_times = _first_decided(spark, cut, messages, snapshot)
        for topic, partition in cut:
            decided_ms, written_ms = first_times.get((topic, partition), never)
            until, fast_until = since[topic]
            fast = written_ms + settings.broker_clock_skew_ms
            since[topic] = (max(until, decided_ms), max(fast_until, fast))
    return spark.createDataFrame([(topic, *times) for topic, times in since.items()], KEPT)


def unlanded(
    spark: SparkSession, settings: Settings, snapshot: Snapshot
) -> tuple[list[DataFrame], DataFrame]:
    """Return records that have not landed: outcomes and discards as events, rows of quarantine.

    Land reads partitions up to different moments. With these records, each landed record has all
    records that were written together with it.
    """
    prefix = settings.topic_prefix
    tables = (RESOLUTION, DISCARDED, QUARANTINE, PARKED)
    topics = [prefix + table.topic for table in tables]
    ranges = readable(settings, topics, topics)
    _refuse_missing(topics, ranges)
    outcomes, discards, refused, parked = (
        table.rows(
            records(spark, settings, _behind(snapshot[table.name], ranges, prefix + table.topic))
        )
        for table in tables
    )
    events = [
        outcomes.select("queue", "offset", F.lit(True).alias("told")),
        discard_events(discards),
        parked.select("queue", "offset", F.lit(True).alias("told")),
    ]
    return events, refused


def end_offsets(settings: Settings) -> QueueEndOffsets:
    """Return the present end offsets of the half and op topics, by `half` and `op`, and queue."""
    names = n.Names(settings.topic_prefix)
    topics = {"half": names.half, "op": names.op}
    by_topic = stored(settings, topics.values())
    _refuse_missing(topics.values(), by_topic)
    return {kind: by_topic[topic] for kind, topic in topics.items()}


def delivery_rules() -> list[Rule]:
    """Return the rules about the real topics; the row has its topic's `kept_ms`."""
    outcome, half = F.col("outcome"), F.col("half")
    own = own_messages()
    count, message = F.size(own), F.get(own, F.lit(0))
    committed = outcome["outcome"] == "COMMIT"
    is_transaction = F.coalesce(F.col("is_transaction"), F.lit(False))
    must_be = _must_be()
    delivered = first_wrong(
        (is_transaction & (count > 1), F.concat(count.cast("string"), F.lit(" messages"))),
        (must_be & (count == 0), "COMMIT, and no message"),
        (
            is_transaction & (message["content"] != half["content"]),
            _text_at(message, "another key, body or header"),
        ),
        (
            is_transaction & (message["stamped_ms"] != half["stored_ms"]),
            _text_at(message, "another timestamp"),
        ),
        (
            is_transaction & (message["partition"] != half["real_qid"]),
            _text_at(message, "not in the partition asked for"),
        ),
    )
    others = outcome.isNotNull() & ~committed
    is_open = F.col("is_transaction") & (F.size("resolutions") == 0) & ~F.col("told")
    is_open &= ~_may_be_delivered()
    # A half that was refused, and has an outcome after a rebuild, may be committed.
    is_refused = ~F.col("is_transaction") & ~F.col("told")
    is_other = F.coalesce(others | is_open | is_refused, F.lit(False))
    is_other = is_other & half.isNotNull() & F.col("kept_ms").isNotNull()
    why = F.coalesce(outcome["outcome"], F.when(is_open, "no outcome").otherwise("refused"))
    ghost = F.when(
        is_other & (count > 0), F.concat(why, F.lit(", and "), _text_at(message, "a message"))
    )
    checked = F.coalesce(must_be | (is_transaction & (count > 0) & ~is_other), F.lit(False))
    return [
        Rule(Invariant.DELIVERED, checked, F.when(~is_other, delivered)),
        Rule(Invariant.NOT_DELIVERED, is_other, ghost),
    ]


def delivery_counts() -> dict[str, Column]:
    """Return the conditions by which rows are counted beside these rules."""
    committed = (F.col("outcome.outcome") == "COMMIT") & is_auditable()
    is_gone = (F.size(own_messages()) == 0) & ~yes(_must_be())
    return {
        "messages_kept_no_longer": committed & is_gone,
        "halves_of_topics_not_read": F.col("half.topic").isNotNull() & F.col("kept_ms").isNull(),
    }


def _refuse_missing(topics: Iterable[str], existing: Collection[str]) -> None:
    """Raise `AuditError` if one of the resolver's topics is not in Kafka."""
    for topic in topics:
        if topic not in existing:
            raise AuditError(
                f"Kafka has no topic {topic}",
                remedy="give the brokers and the topic_prefix that the tables landed from",
            )


def _must_be() -> Column:
    """Whether there must be a message; null if its topic was not read."""
    outcome = F.col("outcome")
    by_producer = outcome["stored_ms"] > F.col("kept_fast_ms")
    is_kept = outcome["decided_ms"] > F.col("kept_ms")
    is_kept = F.when(outcome["delivery"].isNotNull(), by_producer).otherwise(is_kept)
    return (outcome["outcome"] == "COMMIT") & is_auditable() & is_kept


def _may_be_delivered() -> Column:
    """Whether the message of an open half may be its producer's: its op may be yet to land."""
    return is_fast() & (F.col("freed").isNull() | F.col("delivered").isNotNull())


def own_messages() -> Column:
    """Return the messages of the row's half in its topic."""
    half = F.col("half")
    return F.filter(
        "messages",
        lambda message: (message["topic"] == half["topic"]) & (message["id"] == half["id"]),
    )


def _text_at(message: Column, text: str) -> Column:
    """Return a text that also names the message's topic, partition and offset."""
    record = F.concat_ws(":", message["topic"], message["partition"], message["offset"])
    return F.concat(F.lit(f"{text}, at "), record)


def _names_its_half(header: Column) -> Column:
    return header["key"] == n.HALF_OFFSET


def _named(table: DataFrame) -> set[str]:
    """Return the topics in a table's column; the number of topics bounds the result."""
    named = table.select("topic").where(F.col("topic").isNotNull()).distinct()
    return {row.topic for row in named.collect()}


def _first_decided(
    spark: SparkSession, cut: list[tuple[str, int]], messages: DataFrame, snapshot: Snapshot
) -> dict[tuple[str, int], tuple[int, int]]:
    """Return by partition the earliest times, in ms, of the messages that Kafka still has.

    The first is when a message was decided, the second when its outcome was written.
    """
    places = spark.createDataFrame(cut, "topic string, partition int")
    outcomes = snapshot["resolution"].select(
        "topic",
        "queue",
        "offset",
        F.unix_millis("decided_at").alias("decided_ms"),
        F.unix_millis("source_timestamp").alias("written_ms"),
    )
    rows = (
        messages.select("queue", "offset", "message.topic", "message.partition")
        .join(F.broadcast(places), ["topic", "partition"])
        .join(outcomes, ["topic", "queue", "offset"])  # without copies of another topic's messages
        .groupBy("topic", "partition")
        .agg(F.min("decided_ms"), F.min("written_ms"))
        .collect()  # bounded by the number of partitions
    )
    return {(row[0], row[1]): (row[2], row[3]) for row in rows}


def _behind(table: DataFrame, ranges: Ranges, topic: str) -> Ranges:
    """Return the ranges of a topic behind the last offsets in its table."""
    last = table.groupBy("source_partition").agg(F.max("source_offset"))
    landed = {partition: offset + 1 for partition, offset in last.collect()}
    return {
        topic: {
            partition: (min(max(first, landed.get(partition, first)), end), end)
            for partition, (first, end) in ranges[topic].items()
        }
    }
