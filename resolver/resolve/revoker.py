"""The thread that revokes fast ids, so that halves which name them may be checked.

A producer with a fast id delivers its halves' messages itself. So before somebody else decides such
a half, the resolver initialises the id: from then on Kafka refuses the producer, and its open
transaction is aborted. Only after Kafka's answer a record in the op partition says so. Everything
that the producer has delivered lies before this record.

A client of librdkafka can initialise one id only, so each attempt makes a client. Spark's JVM has
Java's `Admin.fenceProducers`, which can do many. It revoked 100 ids with open transactions, 8 at a
time, in 2.1 s; these clients took 3.4 s. But the JVM's first call took 2.4 s, and a call for 8 ids
at once took 12 s. It would also need the options of [kafka] in Java's words. So it is not used.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, Producer

from ..errors import TxResolverError
from ..kafka.clients import PROMPT_OPTIONS, client_config
from ..protocol import Names, revoked_record
from ..settings import Settings
from .plain_producer import PlainProducer
from .revocation_reports import RevocationReports, Revoked
from .revocations import Asker, Revocations
from .vital_thread import VitalThread

#: Seconds for an attempt. Kafka can't end the producer's last transaction while a partition has no
#: leader: then other ids have their turn.
_ATTEMPT_SECONDS = 5.0
#: Seconds after which Kafka is asked again. By itself librdkafka waits for 500 ms, with which a
#: revocation takes 0.8 s in place of 0.2 s.
_SLICE_SECONDS = 0.1
#: Longest pause in seconds between two looks at what is to be said.
_LOOK_SECONDS = 1.0
#: Seconds for attempts to end when the thread is stopped; after them they are left behind.
_STOP_SECONDS = 2.0
#: Time in ms after which Kafka would abort a transaction of ours. There is none.
_TRANSACTION_MS = 5_000
#: Takes what librdkafka logs of each refusal: the reports say it once a minute.
_UNHEARD = logging.getLogger(f"{__name__}.clients")
_UNHEARD.disabled = True
_FORBIDDEN = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class Revoker(VitalThread):
    """Revokes the ids that are wanted: without it the halves of fast producers would pend.

    Its records are made with `secret`, so that the queues believe them.
    """

    def __init__(
        self, settings: Settings, secret: str, failed: Callable[[TxResolverError], None]
    ) -> None:
        super().__init__("txresolver-revoker", failed)
        self._settings = settings
        self._op = Names(settings.topic_prefix).op
        self._secret = secret
        interval_seconds = settings.fence_interval_ms / 1_000
        self._schedule = Revocations(settings.revocations_at_once, interval_seconds)
        self._reports = RevocationReports(settings)
        self._attempts: set[threading.Thread] = set()
        self._producer: PlainProducer | None = None
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._error: Exception | None = None

    def want(self, wanted: Mapping[Asker, Sequence[str]]) -> None:
        """Take all ids that each of these askers wants revoked now, the oldest wish first."""
        with self._changed:
            self._schedule.want(wanted, time.monotonic())
            self._changed.notify()

    def revoked(self) -> Revoked:
        """Return what was revoked since the start, and what waits."""
        with self._changed:
            return self._reports.revoked(self._schedule.waiting())

    def stop(self) -> None:
        """End the thread, and the attempts as far as they end soon."""
        self._stopped.set()
        with self._changed:
            self._changed.notify()
            attempts = list(self._attempts)
        if self.ident is not None:
            self.join()
        until = time.monotonic() + _STOP_SECONDS
        for attempt in attempts:
            attempt.join(max(0.0, until - time.monotonic()))
        if self._producer is not None:
            self._producer.close()
        self._reports.end()

    def _work(self) -> None:
        """Begin attempts, store records of what is revoked, and say what waits."""
        while self._wait():
            with self._changed:
                now = time.monotonic()
                begun, due = self._schedule.begin(now), self._schedule.records(now)
                waiting, error = self._schedule.waiting(), self._error
            if error is not None:
                raise error
            for fast_id in begun:
                self._begin(fast_id)
            if due:
                self._store(due)
            self._reports.log(waiting)

    def _wait(self) -> bool:
        """Wait until something is to be done; False when stopped."""
        with self._changed:
            next_at = self._schedule.next_at()
            pause = _LOOK_SECONDS
            if next_at is not None:
                pause = min(pause, next_at - time.monotonic())
            if pause > 0 and not self._stopped.is_set() and self._error is None:
                self._changed.wait(pause)
            return not self._stopped.is_set()

    def _store(self, due: Iterable[tuple[int, str]]) -> None:
        if self._producer is None:
            self._producer = PlainProducer(self._settings, "revocation")
        self._producer.send(
            revoked_record(self._op, queue, fast_id, self._secret) for queue, fast_id in due
        )

    def _begin(self, fast_id: str) -> None:
        """Let a thread initialise an id: the client's call blocks."""
        attempt = threading.Thread(target=self._attempt, args=(fast_id,), name=f"revoke {fast_id}")
        attempt.daemon = True
        with self._changed:
            self._attempts.add(attempt)
        attempt.start()

    def _attempt(self, fast_id: str) -> None:
        failure: KafkaError | None = None
        error: Exception | None = None
        try:
            self._initialise(fast_id)
        except KafkaException as failed:
            failure = failed.args[0]
        except Exception as failed:
            error = failed
        with self._changed:
            self._attempts.discard(threading.current_thread())
            self._error = self._error or error
            self._note(fast_id, failure)
            self._changed.notify()

    def _note(self, fast_id: str, failure: KafkaError | None) -> None:
        now = time.monotonic()
        if failure is not None:
            is_forbidden = failure.code() == _FORBIDDEN
            self._schedule.fail(fast_id, now, failure.str(), is_forbidden)
        else:
            seconds = self._schedule.succeed(fast_id, now)
            if seconds is not None:
                self._reports.count(seconds)

    def _initialise(self, fast_id: str) -> None:
        """Initialise an id, which fences its producer; raises `KafkaException` without success."""
        producer = Producer(self._config(fast_id))
        until = time.monotonic() + _ATTEMPT_SECONDS
        while True:
            try:
                producer.init_transactions(_SLICE_SECONDS)  # each call asks Kafka at once
                return
            except KafkaException as failed:
                if (
                    not failed.args[0].retriable()
                    or time.monotonic() > until
                    or self._stopped.is_set()
                ):
                    raise

    def _config(self, fast_id: str) -> dict[str, object]:
        ours = {
            **PROMPT_OPTIONS,
            "transactional.id": fast_id,
            "transaction.timeout.ms": _TRANSACTION_MS,
            # librdkafka takes neither for longer than the transaction, whatever [kafka] says.
            "socket.timeout.ms": _TRANSACTION_MS,
            "message.timeout.ms": _TRANSACTION_MS,
            "enable.idempotence": True,
            "acks": "all",
            "logger": _UNHEARD,
        }
        return client_config(self._settings, **ours)
