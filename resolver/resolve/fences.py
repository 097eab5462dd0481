"""The thread for events that only time brings: due fences, an old marker, a takeover by another.

Spark runs a batch only on input. When something falls due on an idle queue, a fence is that input:
an empty record in the queue's op partition. Once the fence is read back, the queue's watermark has
moved over every op stored before it.

Ops may wait for halves that nobody stored. Then a fence goes to the half partition too. Only a
leader that all replicas in sync follow acknowledges it, so it proves which halves there are. An end
offset proves nothing: a leader that was cut off reports the end of before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from ..errors import NoBroker, Replaced, TxResolverError
from ..kafka.topics import verify_queues
from ..protocol import Names, Record, fence_record, half_fence_record
from ..settings import Settings
from .delivery import Delivery
from .plain_producer import PlainProducer
from .vital_thread import VitalThread

_KEEP_ALIVE_SECONDS = 3_600.0
_LOOK_SECONDS = 5.0
#: Seconds in which Kafka has to tell the marker. A coordinator that is silent would hold up a batch
#: for longer, and this thread's fences too.
_MARKER_SECONDS = 1.0
_PARKED_SECONDS = 1.0
_QUEUES_SECONDS = 60.0


class FenceTimer(VitalThread):
    """Sends fences when they are due: without them no check is sent for an idle queue."""

    def __init__(
        self,
        settings: Settings,
        delivery: Delivery,
        secret: str,
        failed: Callable[[TxResolverError], None],
    ) -> None:
        super().__init__("txresolver-fences", failed)
        self._prefix = settings.topic_prefix
        self._names = Names(settings.topic_prefix)
        self._interval_ms = settings.fence_interval_ms
        self._delivery = delivery
        self._secret = secret
        self._settings = settings
        # Without fences no check is sent, and ops that name no half are never refused. So a missing
        # right to write them ends the resolver.
        self._producer = PlainProducer(settings, "fence")
        self._due: dict[int, int] = {}
        self._fence_ops: dict[int, int] = {}
        self._fenced_at: dict[int, float] = {}
        self._changed = threading.Condition()
        self._stopped = False
        self._verify_at = 0.0

    def set(self, queue: int, wake_at_ms: int | None, fence_ops: int | None = None) -> None:
        """Set when a queue needs its next fence; None if the queue waits for nothing.

        With `fence_ops`, a fence in the half partition names this op offset.
        """
        with self._changed:
            self._fence_ops.pop(queue, None)
            if fence_ops is not None:
                self._fence_ops[queue] = fence_ops
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

    def _work(self) -> None:
        """Send due fences and parked messages; check the marker and the queues now and then."""
        look_at = time.monotonic() + _LOOK_SECONDS
        while self._wait(min(look_at, time.monotonic() + _PARKED_SECONDS)):
            self._send_fences()
            if self._delivery.has_parked:
                self._delivery.release()
            if time.monotonic() >= look_at:
                self._look_after_the_marker()
                self._delivery.report()
                self._look_after_the_queues()
                look_at = time.monotonic() + _LOOK_SECONDS

    def _wait(self, look_at: float) -> bool:
        """Wait until a fence is due or `look_at` is reached; False when stopped."""
        with self._changed:
            pause = look_at - time.monotonic()
            next_ms = min(map(self._fence_at, self._due), default=None)
            if next_ms is not None:
                pause = min(pause, (next_ms - _now_ms()) / 1_000)
            if pause > 0 and not self._stopped:
                self._changed.wait(pause)
            return not self._stopped

    def _fence_at(self, queue: int) -> int:
        """Return when to send a queue's next fence: after its time, at most one per interval."""
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
            fences = [fence for queue in due for fence in self._fences(queue)]
        self._producer.send(fences)

    def _fences(self, queue: int) -> Iterator[Record]:
        ops_end = self._fence_ops.get(queue)
        if ops_end is not None:
            yield half_fence_record(self._names.half, queue, ops_end, self._secret)
        yield fence_record(self._names.op, queue)

    def _look_after_the_marker(self) -> None:
        if self._delivery.replaced(_MARKER_SECONDS):
            raise Replaced(f"another resolver took over {self._prefix}*")
        self._delivery.keep_alive(_KEEP_ALIVE_SECONDS)

    def _look_after_the_queues(self) -> None:
        """Check that no partition was added: nobody would read the records stored there."""
        if time.monotonic() < self._verify_at:
            return
        with suppress(NoBroker):  # check again later
            verify_queues(self._settings)
        self._verify_at = time.monotonic() + _QUEUES_SECONDS


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
