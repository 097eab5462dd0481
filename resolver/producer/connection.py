"""The application's connection to Kafka: one idempotent librdkafka producer and its thread."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from ..errors import SendError
from ..protocol import Record
from .client_options import new_producer, producer_options

__all__ = ["Connection"]

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.1
#: Seconds between two calls of `beside`.
_BESIDE_SECONDS = 0.2

OnDelivery = Callable[[Any, Any], None]


class Connection:
    """Sends records with `acks=all`, each once; a thread serves the acknowledgements.

    Several threads may use it. A fork must not: threads don't survive a fork.
    """

    def __init__(self, options: Mapping[str, Any], group: str, batch_bytes: int) -> None:
        self._options = producer_options(options, batch_bytes)
        self._group = group
        self._user_error_cb = options.get("error_cb")
        self._pid = os.getpid()
        self._renewing = threading.Lock()
        self._producer = new_producer({**self._options, "error_cb": self._on_error})
        self._given_up: list[Producer] = []
        self._waking: deque[Callable[[], object]] = deque()
        self._beside: Callable[[], object] | None = None
        self._beside_at = 0.0
        self._closed = False
        self._thread = threading.Thread(
            target=self._serve, name=f"txresolver-acks-{group}", daemon=True
        )
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Connection of group {self._group!r}>"  # options hold secrets

    @property
    def forked(self) -> bool:
        """Whether this is a copy in a fork: it has no threads and must not be used."""
        return os.getpid() != self._pid

    def produce(self, record: Record, on_delivery: OnDelivery) -> None:
        """Send without waiting; raises `BufferError` while the local queue is full."""
        self.check_usable()
        producer = self._producer
        try:
            self._produce(producer, record, on_delivery)
        except KafkaException as error:
            if not _is_fatal(error):
                raise
            self._renew(producer, error)
            self._produce(self._producer, record, on_delivery)

    def check_usable(self) -> None:
        """Raise `SendError` if this connection is closed, or a copy in a fork."""
        if self._closed:
            raise SendError(
                f"the producer of group {self._group!r} is closed", remedy="make a new one"
            )
        if self.forked:
            raise SendError(
                f"the producer of group {self._group!r} was made in process {self._pid} and can't "
                f"be used in its fork {os.getpid()}",
                remedy="make one after the fork",
            )

    def do_beside(self, beside: Callable[[], object]) -> None:
        """Call `beside` some times a second, from the thread that serves acknowledgements."""
        self._beside = beside

    def call_after_acknowledgements(self, waiting: Callable[[], object]) -> None:
        """Call `waiting` when the acknowledgements at hand are served.

        A thread that wakes earlier competes with their callbacks for the interpreter's lock.
        """
        self._waking.append(waiting)

    def flush(self, timeout: float) -> int:
        """Wait up to `timeout` seconds for records under way; return how many still are."""
        if self.forked or self._closed:
            return 0
        deadline = time.monotonic() + timeout
        producers = (*self._given_up, self._producer)
        return sum(each.flush(max(deadline - time.monotonic(), 0.0)) for each in producers)

    def close(self, timeout: float) -> int:
        """Flush, then refuse new records; return how many were not acknowledged."""
        if self._closed:
            return 0
        unacknowledged = self.flush(timeout)
        self._closed = True
        if not self.forked:
            self._thread.join(1.0)
            if not self._thread.is_alive():
                self._end()
        return unacknowledged

    def _end(self) -> None:
        """End librdkafka's threads, which would live until Python collects its garbage."""
        for producer in (*self._given_up, self._producer):
            producer.purge()
            self._poll(producer, 0)
            producer.close()

    def _produce(self, producer: Producer, record: Record, on_delivery: OnDelivery) -> None:
        headers: Any = record.headers
        producer.produce(
            record.topic,
            record.value,
            record.key,
            record.partition,
            on_delivery,
            None,
            0,  # the time: now
            headers,
        )

    def _serve(self) -> None:
        while not self._closed:
            for each in tuple(self._given_up):
                self._empty(each)
            self._poll(self._producer, _POLL_SECONDS)
            self._wake_all()
            self._do_beside()
        self._wake_all()

    def _do_beside(self) -> None:
        now = time.monotonic()
        if self._beside is None or now < self._beside_at:
            return
        self._beside_at = now + _BESIDE_SECONDS
        try:
            self._beside()
        except Exception:  # acknowledgements must go on
            _log.exception("the thread of group %s failed at work beside", self._group)

    def _poll(self, producer: Producer, seconds: float) -> None:
        try:
            producer.poll(seconds)
        except BaseException:  # an error in one callback must not end the others
            _log.exception("an acknowledgement of group %s was not handled", self._group)

    def _empty(self, broken: Producer) -> None:
        """Report each record of a producer that was given up: as failed, or as Kafka answered."""
        broken.purge(in_queue=True, in_flight=False)
        self._poll(broken, 0)
        if not len(broken):
            self._given_up.remove(broken)

    def _wake_all(self) -> None:
        while self._waking:
            self._waking.popleft()()

    def _renew(self, broken: Producer, error: KafkaException) -> None:
        """Replace a producer that librdkafka gave up for good; `_serve` empties the old one."""
        with self._renewing:
            if self._producer is not broken:
                return  # another thread replaced it
            _log.warning("a new connection for group %s after: %s", self._group, error.args[0])
            self._producer = new_producer({**self._options, "error_cb": self._on_error})
            self._given_up.append(broken)

    def _on_error(self, error: KafkaError) -> None:
        # Log a lost connection at debug level: librdkafka logs it too, and reconnects by itself.
        level = logging.DEBUG if error.code() == KafkaError._TRANSPORT else logging.WARNING
        _log.log(level, "Kafka, group %s: %s", self._group, error.str())
        if self._user_error_cb is not None:
            self._user_error_cb(error)


def _is_fatal(error: KafkaException) -> bool:
    reason = error.args[0] if error.args else None
    return isinstance(reason, KafkaError) and (reason.fatal() or reason.code() == KafkaError._FATAL)
