"""A consumer of committed records, in a process of its own: when each became visible.

python -m tests.bench.watch --bootstrap-servers H --topic T --sent-log FILE --count N

Reads until its standard input ends, and then on to the end of the topic.
"""

from __future__ import annotations

import argparse
import threading
import time
import uuid
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from .program import until_input_ends
from .sent_log import SentLog, numbers_in

_FETCHED = 10_000
#: Seconds that one call waits for more messages: it delays none by more.
_WAIT_SECONDS = 0.01


def watch(consumer: Consumer, sent_log: SentLog, ended: threading.Event) -> None:
    """Write into the sent log what is visible, until `ended`; doubles count until then too."""
    partitions = len(consumer.assignment())
    at_end: set[int | None] = set()
    is_ending = False
    while not is_ending or len(at_end) < partitions:
        if not is_ending and ended.is_set():
            is_ending = True
            at_end.clear()  # what was the end before may be no more
            _ask_for_ends(consumer)
        bodies = []
        for message in consumer.consume(_FETCHED, _WAIT_SECONDS):
            error = message.error()
            if error is None:
                bodies.append(message.value() or b"")
                at_end.discard(message.partition())
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
        if bodies:
            sent_log.see(numbers_in(bodies), time.time())
    consumer.close()


def _ask_for_ends(consumer: Consumer) -> None:
    """Go on at the same offsets; librdkafka then reports each partition's end once more."""
    partitions = consumer.position(consumer.assignment())
    for partition in partitions:
        if partition.offset < 0:  # it has given nothing yet
            partition.offset = OFFSET_BEGINNING
    consumer.assign(partitions)


def consumer_of(bootstrap: str, topic: str) -> Consumer:
    """Return a `read_committed` consumer at the topic's beginning, in no group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 3,  # it warns of ends that nobody has read
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
    )
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    return consumer


def main() -> None:
    """Watch what the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--sent-log", type=Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    consumer = consumer_of(options.bootstrap_servers, options.topic)
    watch(consumer, SentLog(options.sent_log, options.count), until_input_ends())


if __name__ == "__main__":
    main()
