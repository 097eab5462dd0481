"""The fast lane of a producer: commits share Kafka transactions, one of which is under way.

Whatever goes wrong, the halves concerned get ordinary commits, and the resolver delivers them.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from ...protocol import Half, Names, TransactionStatus
from ..commit_wait import CommitWait, end_of_wait
from ..half_sender import SentHalf
from ..message import Message
from ..op_publisher import OpPublisher
from ..reported_state import ReportedState, unknown
from .client import FastClient, GroupFailed
from .group import group_records
from .half import FastHalf
from .pauses import Minutes, Pause

_log = logging.getLogger(__name__)

#: Seconds between two looks for halves whose time is over, and for the end of a pause.
_LOOK_SECONDS = 0.25
#: Most commits of a Kafka transaction, and most bytes of their messages: it must not take long.
_MOST_COMMITS = 10_000
_MOST_BYTES = 16_000_000
#: Least size of a record batch in bytes: any message may have a batch for itself.
_LEAST_BATCH_BYTES = 1_000
_COMMIT = ReportedState(TransactionStatus.COMMIT_MESSAGE)
_NOT_FAST = unknown("it is not committed fast")


class FastLimits(NamedTuple):
    """Times in seconds, and sizes in bytes that the topics take.

    `linger` is the least time from one Kafka transaction to the next. `immunity` is that of a half
    without its own.
    """

    linger: float
    immunity: float
    batch_bytes: int
    op_bytes: int


class FastLane:
    """Takes the commits of halves that name the present client's fast id; threads may share it.

    A thread makes clients, writes groups, and gives up halves that take long. A fork has no such
    thread: there all ends go to the publisher, which does not send them.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        group: str,
        names: Names,
        limits: FastLimits,
        publisher: OpPublisher,
    ) -> None:
        self._options = options
        self._group = group
        self._names = names
        self._limits = limits
        self._publisher = publisher
        self._pid = os.getpid()
        #: The present fast id. None while there is no client, or one that is given up.
        self._fast_id: str | None = None
        self._changed = threading.Condition()
        self._open: set[FastHalf] = set()
        #: Commits of the present fast id, for the next Kafka transaction.
        self._waiting: deque[FastHalf] = deque()
        self._begins_at = 0.0
        self._looks_at = 0.0
        self._batch_bytes = limits.batch_bytes
        self._pause = Pause()
        self._slow_topics = Minutes()
        self._warned = Minutes()
        self._closing = threading.Event()
        self._tried = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"txresolver-fast-{group}", daemon=True
        )
        self._thread.start()

    def wait_ready(self, timeout: float) -> None:
        """Wait until there is a client, or the first one could not be made."""
        self._tried.wait(timeout)

    def name(self, half: Half) -> Half:
        """Return a half that is to be stored, with the present fast id if it may be committed fast.

        Kafka knows the id by then: its client is initialised.
        """
        fast_id = self._fast_id
        if fast_id is None or self._slow_topics.counts(half.topic, time.monotonic()):
            return half
        return half._replace(fast_id=fast_id)

    def begin(self, sent: SentHalf, message: Message) -> FastHalf | None:
        """Return what ends a stored half; None for one that names no fast id."""
        if sent.half.fast_id is None:
            return None
        seconds = sent.half.immunity_seconds
        half = FastHalf(self, sent, message, self._limits.immunity if seconds is None else seconds)
        with self._changed:
            if half.fast_id == self._fast_id:
                self._open.add(half)
        return half

    def end(self, half: FastHalf, reported: ReportedState, done: CommitWait | None) -> None:
        """End a half without waiting, and show the end to the hooks."""
        if os.getpid() != self._pid:  # in a fork the lock may never be released
            on_stored = end_of_wait(half.message, done)
            self._publisher.end(half.message, half.sent.half_id, reported, on_stored=on_stored)
            return
        with self._changed:
            self._open.discard(half)
            half.done = done
            if reported.state is TransactionStatus.COMMIT_MESSAGE and self._takes(half):
                self._waiting.append(half)
                if len(self._waiting) == 1:
                    self._changed.notify()
            else:
                # Within the lock: commits that go the slow way keep their order.
                self._send_op(half, reported)
        self._publisher.hooks.show(half.message, half.sent.half_id, reported)

    def close(self, timeout: float) -> None:
        """Write the commits that wait; what is left after `timeout` seconds goes the slow way."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
        self._thread.join(timeout)
        self._leave()

    def _takes(self, half: FastHalf) -> bool:
        return (
            half.fast_id == self._fast_id
            and not half.has_given_up
            and not self._closing.is_set()
            and time.monotonic() < half.until
        )

    def _send_op(self, half: FastHalf, reported: ReportedState, was_tried: bool = False) -> None:
        """Send an end as an ordinary op; the caller has the lock.

        A commit that was in no Kafka transaction gives the fast lane up first. Without that, the
        resolver would have to revoke the fast id, with all that is under way by it.
        """
        state = reported.state
        if state is TransactionStatus.COMMIT_MESSAGE and not was_tried:
            self._give_up(half)
        self._publisher.add(
            half.message,
            half.sent.half_id,
            reported,
            on_stored=end_of_wait(half.message, half.done),
            gives_up_fast=state is TransactionStatus.UNKNOWN,
        )

    def _give_up(self, half: FastHalf) -> None:
        """Tell the resolver that a half will not be committed fast; the caller has the lock."""
        if not half.has_given_up:
            half.has_given_up = True
            self._publisher.add(half.message, half.sent.half_id, _NOT_FAST, gives_up_fast=True)

    def _leave(self, tried: Iterable[FastHalf] = ()) -> None:
        """Use the present fast id no more: commits that name it go the slow way.

        Those of a Kafka transaction that may have failed, `tried`, come first.
        """
        with self._changed:
            self._fast_id = None
            self._open.clear()
            for half in tried:
                self._send_op(half, _COMMIT, was_tried=True)
            while self._waiting:
                self._send_op(self._waiting.popleft(), _COMMIT)

    def _run(self) -> None:
        client: FastClient | None = None
        try:
            while True:
                client = client or self._connect()
                group = self._next_group()
                if client is not None and group:
                    client = self._write(client, group)
                elif self._closing.is_set():
                    return
                elif client is not None:
                    client.poll()
                self._give_up_late()
        except Exception:
            _log.exception("the fast lane of group %s ends, and its commits are slow", self._group)
        finally:
            self._leave()
            self._tried.set()
            if client is not None:
                client.drop()

    def _connect(self) -> FastClient | None:
        """Make a client with a new fast id, unless the pause after a failure goes on."""
        if self._closing.is_set() or time.monotonic() < self._pause.until:
            return None
        client = None
        try:
            fast_id = self._names.fast_id(self._group, uuid.uuid4().hex)
            client = FastClient(self._options, fast_id, self._batch_bytes)
            client.init(self._closing)
        except KafkaException as failed:
            if client is not None:
                client.drop()
            self._fail(failed.args[0])
            client = None
        else:
            self._fast_id = fast_id
        self._tried.set()
        return client

    def _next_group(self) -> list[FastHalf]:
        """Wait for commits to be written together; return none after a while, and at the close."""
        with self._changed:
            if not self._waiting and not self._closing.is_set():
                self._changed.wait(_LOOK_SECONDS)
            pause = self._begins_at - time.monotonic()
            if self._waiting and pause > 0 and not self._closing.is_set():
                self._changed.wait(pause)
            return self._take_group()

    def _take_group(self) -> list[FastHalf]:
        group: list[FastHalf] = []
        size, now = 0, time.monotonic()
        while self._waiting and len(group) < _MOST_COMMITS and size < _MOST_BYTES:
            half = self._waiting.popleft()
            if now < half.until:
                group.append(half)
                size += half.size
            else:
                self._send_op(half, _COMMIT)
        return group

    def _write(self, client: FastClient, group: list[FastHalf]) -> FastClient | None:
        """Write a group, or let it go the slow way; return the client if it is still good."""
        self._begins_at = time.monotonic() + self._limits.linger
        halves = (half.as_stored(self._names) for half in group)
        try:
            client.write(group_records(halves, self._group, self._names, self._limits.op_bytes))
        except GroupFailed as failed:
            client.drop()  # first: consumers wait for the end of its Kafka transaction
            topics = failed.topics if self._names.op not in failed.topics else frozenset()
            if failed.error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                # Perhaps no message is too large for its topic, but a batch of several is.
                self._batch_bytes = max(_LEAST_BATCH_BYTES, self._batch_bytes // 8)
            for topic in topics:
                self._slow_topics.begin(topic, time.monotonic())
            self._leave(group)
            self._fail(failed.error, topics)
            return None
        except BaseException:
            self._leave(group)
            raise
        for half in group:
            if half.done is not None:
                half.done.set_result(True)
        if client.is_spent:
            _log.info("group %s committed slowly: the fast lane goes on with a new id", self._group)
            self._leave()
            self._pause.fail(time.monotonic())
            client.drop()
            return None
        self._pause.succeed()
        return client

    def _give_up_late(self) -> None:
        """Give up the halves whose local transaction takes too long."""
        now = time.monotonic()
        if now < self._looks_at:
            return
        self._looks_at = now + _LOOK_SECONDS
        with self._changed:
            late = [half for half in self._open if half.until <= now]
            self._open.difference_update(late)
            for half in late:
                self._give_up(half)

    def _fail(self, error: KafkaError, topics: frozenset[str] = frozenset()) -> None:
        """Say why commits are slow, once a minute; pause unless topics are at fault."""
        now = time.monotonic()
        if not topics:
            self._pause.fail(now)
        if not self._warned.begin(error.name(), now):
            return
        concerned = (
            f"to {', '.join(sorted(topics))} are slow for a minute" if topics else "are slow"
        )
        _log.warning(
            "commits of group %s %s, and none is lost: %s%s",
            self._group,
            concerned,
            error.str(),
            self._remedy(error),
        )

    def _remedy(self, error: KafkaError) -> str:
        if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            ids = self._names.fast_id(self._group, "")
            return f"; grant the group Write on transactional ids that begin with {ids}"
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return "; grant the group Write on the topics of its messages"
        return ""
