"""A judge of a fault campaign, and the records that it is shown."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from resolver.demo.reading import Read
from resolver.protocol import Names, Outcome, Resolution, Source
from tests.faults.judge import Judge, Verdict
from tests.faults.load import NAME, TOPICS, Fate
from tests.faults.sent_log import COMMIT, Sent, SentLog, digest

NAMES = Names()
TOPIC = TOPICS[0]
#: A key that Java's default partitioner puts into queue 0 of four.
KEY_OF_QUEUE_0 = b"a"


class Story:
    """A sent log and a judge, and what happens to one message."""

    def __init__(self, path: Path) -> None:
        self.sent_log = SentLog(path / "ledger.db")
        self.judge = Judge(self.sent_log, NAMES)

    def sent(
        self,
        name: str = "m",
        half: str | None = "0:7",
        decided: str | None = COMMIT,
        fate: Fate = Fate.COMMIT,
        partition: int | None = None,
    ) -> None:
        content = digest(TOPIC, b"key", b"body", [(NAME, name.encode())])
        self.sent_log.sent(Sent(name, fate.name, content, partition))
        if half:
            self.sent_log.stored(name, half)
        if decided:
            self.sent_log.decide(name, decided)

    def take(self, *reads: Read) -> Verdict:
        self.judge.take(list(reads))
        return self.judge.verdict


def read(topic: str, value: bytes | None, headers: Any = (), offset: int = 0) -> Read:
    return Read(topic, 0, offset, b"key", value, list(headers), time.time_ns() // 1_000_000)


def half(name: str = "m", offset: int = 7) -> Read:
    return read(NAMES.half, b"body", [(NAME, name.encode())], offset=offset)


def message(name: str = "m", body: bytes = b"body", at: str = "0:7") -> Read:
    added = [("UNIQ_KEY", b"id"), ("PGROUP", b"faults"), ("HALF_OFFSET", at.encode())]
    return read(TOPIC, body, [(NAME, name.encode()), *added])


def given_up(body: bytes = b"body") -> Read:
    added = [("REAL_TOPIC", TOPIC.encode()), ("HALF_OFFSET", b"0:7"), ("REASON", b"CHECK_MAX")]
    return read(NAMES.discarded, body, [(NAME, b"m"), *added])


def outcome(
    said: Outcome = Outcome.COMMIT,
    offset: int = 7,
    op_offset: int = 1,
    source: Source = Source.END,
) -> Read:
    resolution = Resolution(
        transaction_id="id", queue=0, offset=offset, outcome=said, source=source,
        group="faults", topic=TOPIC, op_offset=op_offset, checks=0, answered=0, born_at=0,
        stored_at=0, ended_at=0, decided_at=0, batch_id=0, query_id="q",
    )  # fmt: skip
    return read(NAMES.resolution, resolution.to_record(NAMES.resolution).value)
