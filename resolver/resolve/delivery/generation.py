"""Generations of the transactional id: the next one is taken if the last one can't be used.

A transaction that has a partition without a leader can neither be committed nor aborted until the
partition has a leader. Until then Kafka answers each `init_transactions` of its transactional id
with CONCURRENT_TRANSACTIONS. Nobody else shall wait for that partition, so another id is used.

The choice of the id decides nothing else. The member of the marker's group (`MarkerGroup.join`)
keeps an older resolver out, whatever its id. An open transaction of that resolver ends as the
marker says.
"""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException, Producer

#: Seconds after which Kafka is asked again: librdkafka itself waits for 500 ms.
_SLICE_SECONDS = 0.1


class Stuck(Exception):
    """The last transaction of a transactional id can't end now. Never leaves delivery."""


def init_transactions(producer: Producer, stuck_seconds: float, answer_seconds: float) -> None:
    """Initialise a producer: this ends the open transaction of another with its transactional id.

    Raises `Stuck` if Kafka takes longer than `stuck_seconds` to end that transaction. Raises
    `KafkaException` if Kafka gives no useful answer within `answer_seconds`.
    """
    begun, is_ending = time.monotonic(), False
    while True:
        try:
            producer.init_transactions(_SLICE_SECONDS)  # each call asks Kafka at once
            return
        except KafkaException as failed:
            error, waited = failed.args[0], time.monotonic() - begun
            is_ending |= error.code() == KafkaError.CONCURRENT_TRANSACTIONS
            if is_ending and waited > stuck_seconds:
                raise Stuck(error.str()) from failed
            if not error.retriable() or waited > answer_seconds:
                raise
