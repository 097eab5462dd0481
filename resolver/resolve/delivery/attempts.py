"""The attempts to write a batch: how long each waits for Kafka's answer, and when to give up."""

from __future__ import annotations

import logging
import threading
import time

from confluent_kafka import KafkaError, KafkaException

from ...errors import DeliveryError

logger = logging.getLogger(__name__)

#: Seconds for which failed attempts are repeated.
_RETRY_SECONDS = 600.0
#: Pause in seconds after the first failure, and the limit: each further pause is twice as long.
_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 0.1, 1.0
#: Seconds that an attempt waits for a coordinator's answer. A new client notices at once that a
#: coordinator is gone. Each further attempt waits twice as long, up to the second number: Kafka may
#: be slow.
_ANSWER_SECONDS, _MOST_ANSWER_SECONDS = 3.0, 60.0


def answer_seconds(times: float = 1.0) -> float:
    """Return for how many seconds an attempt waits: `times` the usual wait, at most a minute."""
    return min(times * _ANSWER_SECONDS, _MOST_ANSWER_SECONDS)


class Attempts:
    """The attempts to write one batch, until one succeeds; the present one waits `seconds`."""

    def __init__(self, batch: int, seconds: float, closing: threading.Event) -> None:
        self.seconds = seconds
        self._pause_seconds = _PAUSE_SECONDS
        self._batch = batch
        self._closing = closing
        self._give_up_at = time.monotonic() + _RETRY_SECONDS

    def wait_for_next(self, error: Exception) -> None:
        """Log a failed attempt, and wait until the next one may begin.

        Raises `DeliveryError` once ten minutes have passed, or when delivery closes.
        """
        self.seconds = min(2 * self.seconds, _MOST_ANSWER_SECONDS)
        failure = f"batch {self._batch} is not written yet: {str(error) or repr(error)}"
        if time.monotonic() > self._give_up_at or self._closing.is_set():
            raise DeliveryError(
                f"{failure}. It is written after the next start",
                remedy="where Kafka only is too slow for it, give it more time, "
                "kafka_transaction_timeout_ms",
            ) from error
        logger.warning("%s; trying again", failure)
        self._closing.wait(self._pause_seconds)
        self._pause_seconds = min(2 * self._pause_seconds, _MOST_PAUSE_SECONDS)


def tell_if_ended(error: KafkaException, batch: int, released: str | None) -> None:
    """Log an error if somebody ended a batch's transaction, or a release's, before it was written.

    `released` is the topic of the release.
    """
    if error.args[0].code() != KafkaError.INVALID_TXN_STATE:
        return
    what, next_step = f"batch {batch}", "The next attempt looks for them and writes the rest"
    if released is not None:
        what = f"parked messages to {released}"
        next_step = "All of them are written again, so some may be doubled"
    logger.error(
        "%s: the transaction was ended, and not by this resolver: some records may be visible. "
        "%s. Look with `txresolver audit --topics` whether all is well",
        what,
        next_step,
    )
