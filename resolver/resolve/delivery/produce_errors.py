"""What goes wrong with records: refusals for good, and topics that take no records now."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from .packed import Output
from .stalls import Stalled

#: Seconds for which a failed call's reason may still be on its way.
_REPORT_SECONDS = 1.0
_POLL_SECONDS = 0.1

#: Errors of a whole topic, and of one message, that another attempt does not heal.
TOPIC_ERRORS = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
    }
)
MESSAGE_ERRORS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
    }
)


class ProduceRefused(Exception):
    """A topic refuses records for good: one of `messages`, or any record if there are none.

    Never leaves delivery.
    """

    def __init__(self, topic: str, error: KafkaError, messages: Sequence[Output]) -> None:
        super().__init__(f"{topic}: {error.str()}")
        self.topic = topic
        self.error = error
        self.messages = messages

    @property
    def is_size(self) -> bool:
        """Whether the reason is a record's size."""
        return self.error.code() in (
            KafkaError.MSG_SIZE_TOO_LARGE,
            KafkaError.RECORD_LIST_TOO_LARGE,
        )


class ProduceFailures:
    """The failed records of a transaction, as the client reports them, and the errors they mean."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._reported: list[tuple[str, KafkaError]] = []

    def report(self, error: KafkaError | None, message: Any) -> None:
        """Take the client's report of a record."""
        if error is not None:
            self._reported.append((message.topic(), error))

    def raise_first(self) -> None:
        """Raise `KafkaException` if a record has failed."""
        if self._reported:
            topic, error = self._reported[0]
            raise KafkaException(KafkaError(error.code(), f"{topic}: {error.str()}"))

    # The errors are returned, not raised: the traceback would keep the producer, and its client.

    def refusal(
        self, producer: Producer, on_their_way: Mapping[str, Sequence[Output]]
    ) -> ProduceRefused | None:
        """Return the refusal that made a call fail; None if there is none.

        Once one record of many is refused, the transaction has failed. Any call may say only that,
        and records behind the refused record may be reported before it.
        """
        give_up_at = time.monotonic() + _REPORT_SECONDS
        while time.monotonic() < give_up_at:
            for topic, error in self._reported:
                if error.code() in TOPIC_ERRORS | MESSAGE_ERRORS:
                    return ProduceRefused(topic, error, on_their_way.get(topic, []))
            serve(producer.poll, _POLL_SECONDS)
        return None

    def stall(self, producer: Producer, unsent: int) -> Stalled | KafkaException:
        """Return `Stalled` if only records to real topics are left, else `KafkaException`."""
        producer.purge()  # so that the records' topics are reported
        serve(producer.poll, _REPORT_SECONDS)
        topics = {topic for topic, _ in self._reported}
        if topics and not any(topic.startswith(self._prefix) for topic in topics):
            return Stalled(topics)
        reason = (
            f"{unsent} records were not sent, to {', '.join(sorted(topics))}: has each partition "
            "there a leader, and enough replicas in sync?"
        )
        return KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))


def serve(call: Callable[[float], int], seconds: float) -> int:
    """Let a client run callbacks; an error of its own may be hidden in a `SystemError`."""
    try:
        return call(seconds)
    except SystemError as thrown:
        # A fatal error, such as being fenced, is set while other callbacks still run. These may
        # wipe the error out.
        if isinstance(thrown.__cause__, KafkaException):
            raise thrown.__cause__ from None
        lost = KafkaError(KafkaError._FATAL, "the client failed and did not say of what")
        raise KafkaException(lost) from thrown
