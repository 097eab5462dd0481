"""What goes wrong while `reader.py` reads a queue's records: errors and silence.

`problem_of` and `out_of_range` raise an error that another attempt does not heal. After any other
error the reader waits on. `Silence` says when a new client is to ask.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ..errors import RecordsAway, ResolverError

REBUILD = "start with --rebuild, on a new checkpoint, to go on with what is left"
SEE_BROKER = "see that its broker is up, and start again"
SEE_LOSS = f"if it has lost its last records, transactions may be lost: {REBUILD}"

#: Seconds without a record after which a new client asks; each next client has a quarter more.
#: A new client does not wait for a silent connection's answer, nor for a leader that has moved.
#: A client whose broker has just started may forget the broker (librdkafka's issue 5301).
_NEXT_CLIENT_SECONDS, _GROWTH = 1.0, 1.25
#: Time in seconds for a leader to tell a partition's first offset. A new client asks after it.
_FIRST_SECONDS = 1.0


class Problem(NamedTuple):
    """A cause for which no record comes, and its remedy."""

    cause: str
    remedy: str


#: Problems that another attempt does not heal.
_REFUSALS = {
    KafkaError._AUTO_OFFSET_RESET: Problem(
        "Kafka deleted records before they were read, so transactions may be lost", REBUILD
    ),
    KafkaError.TOPIC_AUTHORIZATION_FAILED: Problem(
        "a right is missing", "grant the rights of docs/protocol.md, section 9"
    ),
    KafkaError.UNKNOWN_TOPIC_OR_PART: Problem("the topic is gone", "start again"),
    KafkaError._UNKNOWN_PARTITION: Problem("the partition is gone", "start again"),
    **dict.fromkeys(
        (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG),
        Problem(
            "what is stored there is damaged", "let a replica that is whole lead the partition"
        ),
    ),
}


def problem_of(message: Any) -> Problem:
    """Return the problem that a message tells of; raise one that another attempt does not heal."""
    error = message.error()
    refused = _REFUSALS.get(error.code())
    if refused is not None or error.fatal():
        cause, remedy = refused or Problem("the client gave up", "start again")
        raise ResolverError(
            f"partition {message.partition()} of {message.topic()} can't be read: "
            f"{error.str()}: {cause}",
            remedy=remedy,
        )
    return Problem(str(error.str()), SEE_BROKER)


def out_of_range(consumer: Consumer, message: Any, offset: int) -> Problem:
    """Return the problem of a leader that does not have `offset`; raise if it was deleted.

    A leader that was cut off from the other brokers has only the offsets of before.
    """
    partition = TopicPartition(message.topic(), message.partition())
    try:
        first, _ = consumer.get_watermark_offsets(partition, _FIRST_SECONDS)
    except KafkaException as error:
        return Problem(str(error.args[0].str()), SEE_BROKER)
    if first > offset:
        return problem_of(message)
    # A new client will ask, perhaps another leader: this one gives no more of the partition.
    return Problem(f"It has no offset {offset} ({message.error().str()})", SEE_LOSS)


def records_away(
    unread: Mapping[tuple[str, int], tuple[int, int]], seconds: float, problem: Problem
) -> RecordsAway:
    """Return the error that says that no record of the `unread` ranges came for `seconds`.

    It names the first of the partitions; `problem` is that partition's.
    """
    (topic, queue), (start, end) = next(iter(unread.items()))
    return RecordsAway(
        sorted({queue for _, queue in unread}),
        f"no records from partition {queue} of {topic} within {seconds:.0f} s, which has them from "
        f"{start} to {end}. {problem.cause}".rstrip(". "),
        remedy=problem.remedy,
    )


class Silence:
    """The time without a record, and the time for the next client to ask."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._step = self._next_client_after = _NEXT_CLIENT_SECONDS

    def seconds(self) -> float:
        return time.monotonic() - self._since

    def is_time_for_another_client(self) -> bool:
        """Whether the last client has had its time; the next client has a quarter more."""
        if self.seconds() <= self._next_client_after:
            return False
        self._step *= _GROWTH
        self._next_client_after = self.seconds() + self._step
        return True
