"""How soon `txresolver up` delivers and is ready, with its own broker: new, stopped, and killed."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from resolver import Message, TransactionListener, TransactionProducer, TransactionStatus
from resolver.errors import ResolverError

from .results import CaseFigures, Figures

_TOPIC, _GROUP = "started", "starts"
_STOP_SECONDS = 90.0
_LOOK_SECONDS = 0.01
_MESSAGE_SECONDS = 120.0
#: Linux empties its caches of files when root writes here.
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")


def starts(folder: Path, count: int) -> Iterator[CaseFigures]:
    """Start on new homes, then after stops, then after kills with a message under way."""
    yield "new home", _figures([_started(folder / f"new-{number}") for number in range(count)])
    home = folder / "home"
    _started(home)
    yield "stopped before", _figures([_started(home) for _ in range(count)])
    yield "killed before", _figures([_recovered(home) for _ in range(count)])
    if os.access(_DROP_CACHES, os.W_OK):
        yield "stopped before, caches of files empty", _figures([_started(home, is_cold=True)])


def _started(home: Path, is_cold: bool = False) -> Figures:
    """Start and stop; return the seconds to each of its lines."""
    if is_cold:
        os.sync()
        _DROP_CACHES.write_text("3")
    with _Up(home) as up:
        return up.seconds()


def _recovered(home: Path) -> Figures:
    """Kill it with a message under way; return the next start's seconds, to the message too."""
    body = uuid.uuid4().bytes
    with _Up(home) as up:
        up.seconds()
        _make_topic(up.bootstrap)
        # Halt it first: otherwise it could deliver the message before it is killed.
        up.process.send_signal(signal.SIGSTOP)
        while psutil.Process(up.process.pid).status() != psutil.STATUS_STOPPED:
            time.sleep(_LOOK_SECONDS)
        _commit(up.bootstrap, body)
        up.process.kill()
        bootstrap = up.bootstrap
    with _Up(home) as up:
        message = _await_message(bootstrap, body) - up.began
        return {**up.seconds(), "first_message_s": message}


class _Up:
    """`txresolver up` in a process of its own; told to stop at the end of the `with`."""

    def __init__(self, home: Path) -> None:
        self.began = time.monotonic()
        self.bootstrap = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "resolver", "up", "--home", str(home)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def __enter__(self) -> _Up:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=_STOP_SECONDS)

    def seconds(self) -> Figures:
        """Read its lines up to `ready`; return the seconds from its start to each."""
        seconds_to: Figures = {}
        for line in self.process.stdout or ():
            word, _, where = line.partition(": bootstrap=")
            seconds_to[f"{word}_s"] = time.monotonic() - self.began
            if word == "ready":
                self.bootstrap = where.split()[0]
                return seconds_to
        raise ResolverError("txresolver up ended before it was ready")


class _Committing(TransactionListener):
    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionStatus:
        return TransactionStatus.COMMIT_MESSAGE

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        return TransactionStatus.COMMIT_MESSAGE


def _make_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if _TOPIC not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(_TOPIC, 1, 1)])[_TOPIC].result(30)


def _commit(bootstrap: str, body: bytes) -> None:
    with TransactionProducer(_GROUP, bootstrap, _Committing()) as producer:
        producer.send_message_in_transaction(Message(_TOPIC, body), None)


def _await_message(bootstrap: str, body: bytes) -> float:
    """Return when a consumer had the message, by the monotonic clock."""
    options = {"group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 100, **options}
    )
    consumer.subscribe([_TOPIC])
    until = time.monotonic() + _MESSAGE_SECONDS
    try:
        while time.monotonic() < until:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None and message.value() == body:
                return time.monotonic()
    finally:
        consumer.close()
    raise ResolverError(f"the message was not delivered within {_MESSAGE_SECONDS:.0f} s")


def _figures(all_seconds: list[Figures]) -> Figures:
    """Return the median and the worst of each figure."""
    figures: Figures = {"starts": len(all_seconds)}
    for name in all_seconds[0]:
        values = [each[name] for each in all_seconds]
        figures[name] = statistics.median(values)
        figures[f"worst_{name}"] = max(values)
    return figures
