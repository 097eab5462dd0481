"""What only the passing of time brings about: fences, a living marker, being replaced.

Spark runs a batch where there is input. Where something falls due on an idle queue, a fence, an
empty record in its op partition, is that input; read back, it has moved the queue's watermark over
every op stored before it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from .delivery import Delivery
from .errors import Replaced, ResolverError, SettingsError, TxResolverError
from .kafka import client_config
from .protocol import Names, fence_record
from .settings import Settings
from .topics import verify_queues

logger = logging.getLogger(__name__)

_KEEP_ALIVE_SECONDS = 3_600.0
_LOOK_SECONDS = 5.0
_QUEUES_SECONDS = 60.0
_FENCE_SECONDS = 10


class Clock(threading.Thread):
    """Sends fences when they are due; tells of what ends the resolver by `failed`."""

    def __init__(
        self, settings: Settings, delivery: Delivery, failed: Callable[[TxResolverError], None]
    ) -> None:
        super().__init__(name="txresolver-clock", daemon=True)
        self._prefix = settings.topic_prefix
        self._op_topic = Names(settings.topic_prefix).op
        self._interval_ms = settings.fence_interval_ms
        self._delivery = delivery
        self._failed = failed
        self._settings = settings
        self._producer = self._connected()
        self._due: dict[int, int] = {}
        self._fenced_at: dict[int, float] = {}
        self._changed = threading.Condition()
        self._stopped = False
        self._lost = False
        self._verify_at = 0.0

    def _connected(self) -> Producer:
        ours = {
            # Not idempotent, which may end in an error for good: a second fence does no harm.
            "acks": "all",
            "allow.auto.create.topics": False,
            "message.timeout.ms": _FENCE_SECONDS * 1_000,
            "on_delivery": self._report,
        }
        return Producer(client_config(self._settings, **ours))

    def set(self, queue: int, wake_at_ms: int | None) -> None:
        """Say when a queue needs a fence next; None if it waits for nothing."""
        with self._changed:
            if wake_at_ms is None:
                self._due.pop(queue, None)
            else:
                self._due[queue] = wake_at_ms
            self._changed.notify()

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self.ident is not None:
            self.join()
        self._producer.close()

    def run(self) -> None:
        """Send what is due, and look after the marker now and then."""
        try:
            self._run()
        except TxResolverError as error:
            self._failed(error)
        except Exception as error:
            # Without this thread an idle queue would send no check any more: stop instead.
            self._failed(ResolverError(f"the thread {self.name} failed: {error!r}"))

    def _run(self) -> None:
        look_at = time.monotonic() + _LOOK_SECONDS
        while self._wait(look_at):
            self._send_fences()
            if time.monotonic() >= look_at:
                self._look_after_the_marker()
                self._look_after_the_queues()
                look_at = time.monotonic() + _LOOK_SECONDS

    def _wait(self, look_at: float) -> bool:
        """Wait until a fence is due or it is time to look; False when stopped."""
        with self._changed:
            pause = look_at - time.monotonic()
            next_ms = min(map(self._fence_at, self._due), default=None)
            if next_ms is not None:
                pause = min(pause, (next_ms - _now_ms()) / 1_000)
            if pause > 0 and not self._stopped:
                self._changed.wait(pause)
            return not self._stopped

    def _fence_at(self, queue: int) -> int:
        """Return when to send a queue's next fence: after its time, at most one in an interval."""
        before = self._fenced_at.get(queue)
        if before is None:
            return self._due[queue] + 1
        left_ms = int((before - time.monotonic()) * 1_000) + self._interval_ms
        return max(self._due[queue] + 1, _now_ms() + left_ms)

    def _send_fences(self) -> None:
        with self._changed:
            now_ms = _now_ms()
            due = [queue for queue in self._due if self._fence_at(queue) <= now_ms]
            self._fenced_at.update(dict.fromkeys(due, time.monotonic()))
        for queue in due:
            fence = fence_record(self._op_topic, queue)
            try:
                self._producer.produce(
                    fence.topic, fence.value, partition=queue, headers=list(fence.headers)
                )
            except (BufferError, KafkaException) as error:
                logger.warning("fence of queue %d is sent a little later: %s", queue, error)
        self._producer.poll(0)
        if self._lost:
            # A client that forgot all brokers does not find them again (librdkafka's issue 5301).
            self._producer.close()
            self._producer = self._connected()
            self._lost = False

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and not self._lost:
            logger.warning(
                "the fence of queue %s was not stored (%s): sent again by a new client",
                message.partition(),
                error.str(),
            )
            self._lost = True

    def _look_after_the_marker(self) -> None:
        if self._delivery.replaced():
            raise Replaced(f"another resolver took over {self._prefix}*")
        self._delivery.keep_alive(_KEEP_ALIVE_SECONDS)

    def _look_after_the_queues(self) -> None:
        """See that no partition was added: nobody would read what producers store there."""
        if time.monotonic() < self._verify_at:
            return
        with suppress(SettingsError):  # no broker answers: later, then
            verify_queues(self._settings)
        self._verify_at = time.monotonic() + _QUEUES_SECONDS


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
