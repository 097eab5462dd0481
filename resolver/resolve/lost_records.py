"""A partition that has lost its last records, and has others in their place.

Kafka may lose acknowledged records, as when a machine loses its power. Another leader then stores
other records at their offsets. So the record that was read last is read once more when the leader's
epoch has changed: it must still have its own epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ..errors import ResolverError
from .read_problems import REBUILD, SEE_BROKER

#: A partition: its topic and its number.
Partition = tuple[str, int]


class Seen(NamedTuple):
    """The offset of a record that was read, and the epoch of the leader that stored it."""

    offset: int
    epoch: int


def bring_up_to_date(
    seen: dict[str, Seen],
    last: dict[Partition, Any],
    first_offset: Callable[[Partition], int],
    message_at: Callable[[Partition, int], Any],
) -> None:
    """Note in `seen`, by topic, the `last` message that was read from each partition.

    Raises `ResolverError` if the record that `seen` had is lost. `first_offset` and `message_at`
    ask Kafka: they return a partition's first offset, and its message at an offset, or None.
    """
    for partition, message in last.items():
        topic, _ = partition
        epoch, before = message.leader_epoch(), seen.get(topic)
        if epoch is None:
            continue  # the broker has no epochs
        if before is not None and epoch != before.epoch:
            _see_still_there(partition, before, first_offset, message_at)
        seen[topic] = Seen(message.offset(), epoch)


def _see_still_there(
    partition: Partition,
    before: Seen,
    first_offset: Callable[[Partition], int],
    message_at: Callable[[Partition, int], Any],
) -> None:
    """Read the record `before` again, since another leader has stored a record after it."""
    if before.offset < first_offset(partition):
        return  # deleted since then, as old enough
    message = message_at(partition, before.offset)
    if message is None or message.leader_epoch() != before.epoch:
        topic, number = partition
        raise ResolverError(
            f"partition {number} of {topic} has lost records up to {before.offset}, which "
            "were read, and has others in their place, so transactions may be lost",
            remedy=REBUILD,
        )


def ask_first_offset(consumer: Consumer, partition: Partition, seconds: float) -> int:
    """Return the first offset that Kafka still has of a partition; it has `seconds` to answer."""
    try:
        first, _ = consumer.get_watermark_offsets(TopicPartition(*partition), seconds)
    except KafkaException as error:
        raise ResolverError(
            f"where {partition} begins is not known: {error}", remedy=SEE_BROKER
        ) from error
    return first
