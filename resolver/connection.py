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

from .errors import SendError, SettingsError
from .protocol import Record
from .settings.options import check_kafka

__all__ = ["Connection", "client_options"]

_log = logging.getLogger(__name__)
#: librdkafka's own log lines; it tells them when the connection is polled.
_kafka_log = logging.getLogger("resolver.librdkafka")
# One dictionary of options serves producers and consumers; each warns of what is the other's.
_kafka_log.addFilter(lambda line: "property and will be ignored by" not in line.getMessage())
_POLL_SECONDS = 0.1
#: Above what any topic takes: the topic's own limit is checked before, and says so better.
_CLIENT_MAX_BYTES = 1_000_000_000
_BATCH_BYTES = 1_000_000
_IN_FLIGHT = 3
_OURS = {
    "delivery.report.only.error": "a half is sent when its acknowledgement arrives",
    "default.topic.config": "give its options at the top",
    "on_delivery": "the producer follows its own acknowledgements",
    "logger": "configure the logger 'resolver.librdkafka'",
}

OnDelivery = Callable[[Any, Any], None]


def client_options(
    bootstrap_servers: str, kafka: Mapping[str, Any] | None, group: str, **ours: Any
) -> dict[str, Any]:
    """Return a client's librdkafka options; `ours` win. Raises `SettingsError` with a reason."""
    if not isinstance(bootstrap_servers, str) or not bootstrap_servers.strip():
        raise SettingsError(
            f"bootstrap_servers is {bootstrap_servers!r}; give Kafka's brokers, such as "
            "'kafka1:9092,kafka2:9092'"
        )
    given = dict(kafka or {})
    for key in given:
        if key in _OURS:
            raise SettingsError(f"{key!r} can't be set in kafka: {_OURS[key]}; remove it")
    check_kafka({key: value if isinstance(value, str) else "-" for key, value in given.items()})
    return {
        "client.id": f"txresolver-{group}",
        **{key: _guarded(key, value) for key, value in given.items()},
        "bootstrap.servers": bootstrap_servers,
        "logger": _kafka_log,
        **ours,
    }


def _guarded(key: str, value: Any) -> Any:
    """Keep what a callback raises out of the poll that calls it, where it costs a message."""
    if not callable(value) or key == "oauth_cb":  # librdkafka is told that there is no token
        return value

    def call(*args: Any) -> None:
        try:
            value(*args)
        except BaseException:
            _log.exception("%s of the kafka options failed", key)

    return call


class Connection:
    """Sends records with `acks=all`, each once; a thread serves the acknowledgements.

    Several threads may use it. A fork must not: threads don't survive one.
    """

    def __init__(self, options: Mapping[str, Any], group: str, batch_bytes: int) -> None:
        self._options = {
            # Halves are waited for. What comes while a request is under way shares the next one
            # all the same; and librdkafka spins through a wait of less than a millisecond.
            "linger.ms": 0,
            "batch.size": min(batch_bytes, _BATCH_BYTES),
            **options,
            "acks": "all",
            "enable.idempotence": True,
            # With more under way librdkafka spins, since idempotence allows five in a partition;
            # what comes meanwhile shares a request.
            "max.in.flight": _IN_FLIGHT,
            "message.max.bytes": _CLIENT_MAX_BYTES,
        }
        self._group = group
        self._user_error_cb = options.get("error_cb")
        self._pid = os.getpid()
        self._renewing = threading.Lock()
        self._producer = self._new_producer()
        self._given_up: list[Producer] = []
        self._waking: deque[Callable[[], object]] = deque()
        self._closed = False
        self._thread = threading.Thread(
            target=self._serve, name=f"txresolver-acks-{group}", daemon=True
        )
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Connection of group {self._group!r}>"  # options hold secrets

    @property
    def forked(self) -> bool:
        """Whether this is a copy in a fork, without threads and not to be used."""
        return os.getpid() != self._pid

    def produce(self, record: Record, on_delivery: OnDelivery) -> None:
        """Send without waiting; raises `BufferError` while the local queue is full."""
        if self._closed:
            raise SendError(f"the producer of group {self._group!r} is closed; make a new one")
        if self.forked:
            raise SendError(
                f"the producer of group {self._group!r} was made in process {self._pid} and can't "
                f"be used in its fork {os.getpid()}; make one after the fork"
            )
        producer = self._producer
        try:
            self._produce(producer, record, on_delivery)
        except KafkaException as error:
            if not _is_fatal(error):
                raise
            self._renew(producer, error)
            self._produce(self._producer, record, on_delivery)

    def wake(self, waiting: Callable[[], object]) -> None:
        """Call `waiting` when the acknowledgements at hand are served.

        Whoever wakes earlier fights with their callbacks for the interpreter's lock.
        """
        self._waking.append(waiting)

    def flush(self, timeout: float) -> int:
        """Wait for what is under way, at most `timeout` seconds; return what is left unsent."""
        if self.forked or self._closed:
            return 0
        deadline = time.monotonic() + timeout
        producers = (*self._given_up, self._producer)
        return sum(each.flush(max(deadline - time.monotonic(), 0.0)) for each in producers)

    def close(self, timeout: float) -> int:
        """Flush, and refuse what comes later; return what is left unsent."""
        if self._closed:
            return 0
        left = self.flush(timeout)
        self._closed = True
        if not self.forked:
            self._thread.join(1.0)
            if not self._thread.is_alive():
                self._end()
        return left

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
            0,
            headers,
        )

    def _serve(self) -> None:
        while not self._closed:
            for each in tuple(self._given_up):
                self._empty(each)
            self._poll(self._producer, _POLL_SECONDS)
            self._wake_all()
        self._wake_all()

    def _poll(self, producer: Producer, seconds: float) -> None:
        try:
            producer.poll(seconds)
        except BaseException:  # a callback's error must not end the acknowledgements of others
            _log.exception("an acknowledgement of group %s was not handled", self._group)

    def _empty(self, broken: Producer) -> None:
        """Have each record of one that is given up reported: failed, or as its answer says."""
        broken.purge(in_queue=True, in_flight=False)
        self._poll(broken, 0)
        if not len(broken):
            self._given_up.remove(broken)

    def _wake_all(self) -> None:
        while self._waking:
            self._waking.popleft()()

    def _renew(self, broken: Producer, error: KafkaException) -> None:
        """Replace a producer that librdkafka gave up for good; `_serve` empties it."""
        with self._renewing:
            if self._producer is not broken:
                return  # another thread did
            _log.warning("a new connection for group %s after: %s", self._group, error.args[0])
            self._producer = self._new_producer()
            self._given_up.append(broken)

    def _new_producer(self) -> Producer:
        try:
            return Producer({**self._options, "error_cb": self._on_error})
        except KafkaException as error:
            raise SettingsError(f"librdkafka refused an option: {error.args[0].str()}") from error

    def _on_error(self, error: KafkaError) -> None:
        # A lost connection is in librdkafka's own log already, and it mends it.
        level = logging.DEBUG if error.code() == KafkaError._TRANSPORT else logging.WARNING
        _log.log(level, "Kafka, group %s: %s", self._group, error.str())
        if self._user_error_cb is not None:
            self._user_error_cb(error)


def _is_fatal(error: KafkaException) -> bool:
    reason = error.args[0] if error.args else None
    return isinstance(reason, KafkaError) and (reason.fatal() or reason.code() == KafkaError._FATAL)
