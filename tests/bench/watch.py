"""A consumer of committed records, in a process of its own: when each became visible.

python -m tests.bench.watch --bootstrap-servers H --topic T --ledger FILE --count N

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
from .sent_log import Ledger, numbers_in

_FETCHED = 10_000
#: A fetch of librdkafka's waits so long for more: no message is seen later by more than this.
_WAIT_SECONDS = 0.01


def watch(consumer: Consumer, ledger: Ledger, ended: threading.Event) -> None:
    """Write into the ledger what is visible, until `ended`: what came twice by then counts too."""
    partitions = len(consumer.assignment())
    at_end: set[int | None] = set()
    told = False
    while not told or len(at_end) < partitions:
        if not told and ended.is_set():
            told = True
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
            ledger.see(numbers_in(bodies), time.time())
    consumer.close()


def _ask_for_ends(consumer: Consumer) -> None:
    """Go on where it is; that each partition ends is then said anew."""
    places = consumer.position(consumer.assignment())
    for place in places:
        if place.offset < 0:  # it has given nothing yet
            place.offset = OFFSET_BEGINNING
    consumer.assign(places)


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
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    given = parser.parse_args()
    consumer = consumer_of(given.bootstrap_servers, given.topic)
    watch(consumer, Ledger(given.ledger, given.count), until_input_ends())


if __name__ == "__main__":
    main()
