"""What is measured: each on a topic prefix of its own, the JVM warm after the first."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec  # type: ignore[attr-defined]
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipelines.resolve import Resolve
from resolver.bench.load import BODY
from resolver.bench.plain import plain_join
from resolver.bench.rocketmq import rocketmq
from resolver.bench.state import QueueState
from resolver.bench.watch import late_checks
from resolver.errors import ResolverError
from resolver.kafka import admin_client
from resolver.protocol import Names
from resolver.settings import Settings
from resolver.topics import ensure_topics

_WARM_UP = 300_000
_PARTITIONS = 4
_IDLE_TIMEOUT_MS = 3_000
_LOOK_SECONDS = 0.05
_ROCKETMQ_WARM_UP_SECONDS = 30


class Bench:
    """Measurements, each of which returns a line that says what was found."""

    def __init__(self, spark: SparkSession, settings: Settings, home: Path) -> None:
        self._spark = spark
        self._settings = settings
        self._home = home

    def warm_up(self) -> None:
        """Let the JVM compile what the measurements run."""
        self._resolve_backlog(_WARM_UP)

    def backlog(self, transactions: int) -> str:
        """All stored before the resolver starts: from then until the last batch is committed."""
        seconds, figures = self._resolve_backlog(transactions)
        return _rate(transactions, seconds, figures)

    def at_rate(self, rate: int, seconds: int) -> str:
        """Arriving at a rate: how long from an op's storing to its message being visible."""
        with self._prefix() as (settings, topic), self._resolving(settings) as job:
            _await_batch(job)
            count = rate * seconds
            watcher = _start("watch", settings, topic, count)
            pace = (f"--queues={settings.queues}", f"--rate={rate}")
            load = _start("load", settings, topic, count, *pace)
            started = time.monotonic()
            load.communicate()
            sent = time.monotonic() - started
            figures = json.loads(watcher.communicate()[0])
            took = time.monotonic() - started
        waits = ", ".join(f"{name} {figures[name]:.2f} s" for name in ("p50", "p99", "worst"))
        return (
            f"{rate:,}/s for {sent:.0f} s: op to visible {waits}; all visible {took - sent:.1f} s "
            f"after the last was sent; {_delivered(figures)}"
        )

    def idle(self, halves: int) -> str:
        """Halves without an op, nothing else: how long after its time each check goes out."""
        with self._prefix() as (settings, topic):
            settings = replace(settings, transaction_timeout_ms=_IDLE_TIMEOUT_MS)
            with self._resolving(settings) as job:
                _await_batch(job)
                queues = f"--queues={settings.queues}"
                _start("load", settings, topic, halves, queues, "--no-ops").communicate()
                names = Names(settings.topic_prefix)
                late = late_checks(settings.bootstrap_servers, names, halves, _IDLE_TIMEOUT_MS)
        return f"{len(late)} checks on idle topics, at most {max(late):.2f} s after they were due"

    def plain(self, transactions: int) -> str:
        """The same backlog by a stream-stream join and Spark's own sink."""
        with self._prefix() as (settings, topic):
            ends = _load_all(settings, topic, transactions)
            started = time.monotonic()
            checkpoint = str(self._home / f"{settings.topic_prefix}plain")
            query = plain_join(self._spark, settings, checkpoint)
            try:
                while not _is_read(query, ends):
                    if query.awaitTermination(1):
                        raise ResolverError("the plain join ended before it had read all")
                seconds = time.monotonic() - started
            finally:
                query.stop()
            watcher = _start("watch", settings, topic, transactions, "--messages-only")
            figures = json.loads(watcher.communicate()[0])
        return _rate(transactions, seconds, figures)

    def rocketmq(self, seconds: int) -> str:
        """RocketMQ's own benchmark, its consumer running beside its producer."""
        with rocketmq(self._home / f"rocketmq-{uuid.uuid4().hex[:8]}") as peer:
            found = peer.transactions(len(BODY), _ROCKETMQ_WARM_UP_SECONDS, seconds)
        return (
            f"{found.sent:,.0f} transactions/s sent, {found.consumed:,.0f}/s consumed; "
            f"round trip {found.round_trip_ms:.1f} ms"
        )

    def _resolve_backlog(self, transactions: int) -> tuple[float, dict[str, Any]]:
        with self._prefix() as (settings, topic):
            ends = _load_all(settings, topic, transactions)
            with self._resolving(settings) as job:
                started = time.monotonic()
                while not _is_read(job.query, ends) and not job.wait(_LOOK_SECONDS):
                    pass
                seconds = time.monotonic() - started
            watcher = _start("watch", settings, topic, transactions)
            return seconds, json.loads(watcher.communicate()[0])

    @contextmanager
    def _prefix(self) -> Iterator[tuple[Settings, str]]:
        """Make the topics of a measurement."""
        name = uuid.uuid4().hex[:8]
        settings = replace(self._settings, topic_prefix=f"{name}.")
        admin = admin_client(settings)
        ensure_topics(admin, settings)
        topic = f"bench-{name}"
        for made in admin.create_topics([NewTopic(topic, _PARTITIONS, 1)]).values():
            made.result(30)
        yield settings, topic

    @contextmanager
    def _resolving(self, settings: Settings) -> Iterator[Resolve]:
        job = Resolve(self._spark, settings, str(self._home / settings.topic_prefix))
        try:
            job.start()
            yield job
            job.raise_failure()
        finally:
            job.stop(60)


def _start(
    what: str, settings: Settings, topic: str, count: int, *more: str
) -> subprocess.Popen[str]:
    """Start the load or the watcher in a process of its own."""
    arguments = {
        "bootstrap-servers": settings.bootstrap_servers,
        "prefix": settings.topic_prefix,
        "topic": topic,
        "count": count,
    }
    given = [f"--{name}={value}" for name, value in arguments.items()]
    command = [sys.executable, "-m", f"resolver.bench.{what}", *given, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _load_all(settings: Settings, topic: str, transactions: int) -> dict[str, dict[str, int]]:
    """Store transactions, and return where both topics end."""
    queues = f"--queues={settings.queues}"
    _start("load", settings, topic, transactions, queues).communicate()
    return _ends(settings)


def _ends(settings: Settings) -> dict[str, dict[str, int]]:
    """Return the end offsets of both topics, as a query's progress has them."""
    admin, names = admin_client(settings), Names(settings.topic_prefix)
    partitions = [
        TopicPartition(topic, queue)
        for topic in (names.half, names.op)
        for queue in range(settings.queues)
    ]
    ends: dict[str, dict[str, int]] = {}
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = admin.list_offsets({partition: latest for partition in partitions})
    for partition, end in asked.items():
        ends.setdefault(partition.topic, {})[str(partition.partition)] = end.result().offset
    return ends


def _await_batch(job: Resolve) -> None:
    """Wait for the first batch, as `txresolver up` does before it says that it is ready."""
    while not job.has_run() and not job.wait(_LOOK_SECONDS):
        pass


def _is_read(query: StreamingQuery, ends: dict[str, dict[str, int]]) -> bool:
    progress = query.lastProgress
    read: dict[str, dict[str, int]] = {}
    for source in progress.sources if progress else []:
        read |= json.loads(source.endOffset)
    return all(
        read.get(topic, {}).get(queue, 0) >= end
        for topic, queues in ends.items()
        for queue, end in queues.items()
    )


def _rate(transactions: int, seconds: float, figures: dict[str, Any]) -> str:
    return (
        f"{transactions:,} transactions in {seconds:.1f} s: {transactions / seconds:,.0f}/s; "
        f"{_delivered(figures)}"
    )


def _delivered(figures: dict[str, Any]) -> str:
    return f"delivered {figures['delivered']:,}, doubled {figures['doubled']}"


def state() -> str:
    """What a queue keeps after 100,000 and 1,000,000 settled transactions, 1,000 pending."""
    queue = QueueState()
    few = queue.feed(100_000, pending=1_000)
    many = queue.feed(900_000, pending=0)
    bits = (many - few) * 8 / 900_000
    return (
        f"{few:,} bytes after 100,000 settled, {many:,} after 1,000,000, with 1,000 pending: "
        f"{bits:.2f} bits for each settled one"
    )
