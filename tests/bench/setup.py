"""The setup of measurements: one broker and one Spark for all, and topics for each."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from pyspark.sql import SparkSession

from resolver.errors import ResolverError
from resolver.kafka.clients import admin_client
from resolver.kafka.topics import ensure_topics
from resolver.protocol import Names
from resolver.resolve.job import Resolve
from resolver.settings import Settings

from .load import GROUP
from .program import Program
from .sent_log import SentLog

_PARTITIONS = 4
_LOOK_SECONDS = 0.05
_QUIET_SECONDS = 20.0


class Topics(NamedTuple):
    """The topics under one prefix, the real one that is delivered to, and a folder for the rest."""

    settings: Settings
    real: str
    home: Path

    @property
    def names(self) -> Names:
        return Names(self.settings.topic_prefix)

    @property
    def checkpoint(self) -> str:
        return str(self.home / "checkpoint")


class Setup:
    """The broker and the Spark session of all measurements; makes the topics of each."""

    def __init__(self, spark: SparkSession, settings: Settings, home: Path) -> None:
        self.spark = spark
        self.settings = settings
        self._home = home

    def folder(self) -> Path:
        """Return a folder that is not there yet."""
        return self._home / uuid.uuid4().hex[:8]

    @contextmanager
    def topics(self, **changes: Any) -> Iterator[Topics]:
        """Make topics, under settings with these changes; they are deleted afterwards."""
        name = uuid.uuid4().hex[:8]
        settings = replace(self.settings, topic_prefix=f"{name}.", **changes)
        admin = admin_client(settings)
        ensure_topics(admin, settings, [GROUP])
        made = Topics(settings, f"bench-{name}", self.folder())
        made.home.mkdir()
        for future in admin.create_topics([NewTopic(made.real, _PARTITIONS, 1)]).values():
            future.result(30)
        try:
            yield made
        finally:
            all_topics = admin.list_topics(timeout=30).topics
            ours = [
                topic for topic in all_topics if topic.startswith(f"{name}.") or topic == made.real
            ]
            for deleted in admin.delete_topics(ours).values():
                deleted.result(30)
            shutil.rmtree(made.home, ignore_errors=True)

    @contextmanager
    def resolving(self, topics: Topics) -> Iterator[Resolve]:
        """Run the job `resolve`, warm by its first batch."""
        job = Resolve(self.spark, topics.settings, topics.checkpoint)
        try:
            job.start()
            yield job
            job.raise_failure()
        finally:
            job.stop(60)


def await_batch(job: Resolve) -> None:
    """Wait for the first batch, as `txresolver up` does before it says that it is ready."""
    while not job.has_run() and not job.wait(_LOOK_SECONDS):
        pass


def load(topics: Topics, count: int, **options: object) -> Program:
    """Start to store `count` transactions."""
    return Program(
        "load",
        bootstrap_servers=topics.settings.bootstrap_servers,
        prefix=topics.settings.topic_prefix,
        topic=topics.real,
        queues=topics.settings.queues,
        count=count,
        **options,
    )


def send(topics: Topics, sent_log: SentLog, **options: object) -> Program:
    """Start to send transactions as an application does, until its result is asked for."""
    return Program(
        "send",
        bootstrap_servers=topics.settings.bootstrap_servers,
        prefix=topics.settings.topic_prefix,
        topic=topics.real,
        sent_log=sent_log.path,
        count=sent_log.count,
        **options,
    )


def watch(topics: Topics, sent_log: SentLog, topic: str | None = None) -> Program:
    """Start to read what is delivered; it ends with the `with`."""
    return Program(
        "watch",
        bootstrap_servers=topics.settings.bootstrap_servers,
        topic=topic or topics.real,
        sent_log=sent_log.path,
        count=sent_log.count,
    )


def await_delivered(
    sent_log: SentLog, count: int, watcher: Program, quiet_seconds: float = _QUIET_SECONDS
) -> None:
    """Wait until `count` are visible, or no more have become visible for `quiet_seconds`."""
    delivered, since = -1, time.monotonic()
    while sent_log.delivered < count and time.monotonic() - since < quiet_seconds:
        if not watcher.running():
            raise ResolverError("the consumer of the benchmark ended before it was told to")
        if sent_log.delivered != delivered:
            delivered, since = sent_log.delivered, time.monotonic()
        time.sleep(_LOOK_SECONDS)
