"""Warnings about what ends badly: undeliverable, discarded and quarantined records.

Each kind is warned about when it first comes, and then once a minute with its count. Otherwise an
operator would have to look into the topics, or a flood of them would fill the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ...protocol import Names
from ...protocol import names as n
from ...protocol.record import short
from .packed import DecisionRecords, Output

logger = logging.getLogger(__name__)

#: Seconds between two warnings of a kind.
_INTERVAL_SECONDS = 60.0
#: Most kinds that are told apart: groups and topics in refused records may be anything.
_MOST_KINDS = 50
#: Headers that a warning names.
_NAMED = (n.REASON, n.ERROR, n.PGROUP, n.REAL_TOPIC)


class _Kind(NamedTuple):
    """A kind of record, as its warning names it; empty strings are left out."""

    topic: str
    reason: str
    group: str = ""
    real_topic: str = ""


@dataclass
class _Count:
    number: int
    error: str
    since: float


class Notices:
    """Counts what ends badly, by reason, group and topic, and warns."""

    def __init__(self, names: Names, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._topics = {names.discarded, names.quarantine}
        self._monotonic = monotonic
        self._counts: dict[_Kind, _Count] = {}

    def count(self, written: Iterable[DecisionRecords]) -> None:
        """Count decisions that were written, and warn of kinds that are new."""
        for message, _, half_headers in written:
            is_commit = half_headers is not None  # most decisions are, and they end well
            if not is_commit and message is not None and message.topic in self._topics:
                self._count(message)

    def warn(self) -> None:
        """Warn of what was counted since the last warning; forget kinds that came no more."""
        now = self._monotonic()
        for kind, count in list(self._counts.items()):
            if now - count.since < _INTERVAL_SECONDS:
                continue
            if count.number:
                _warn(kind, count)
                self._counts[kind] = _Count(0, "", now)
            else:
                del self._counts[kind]

    def _count(self, output: Output) -> None:
        headers = {
            name: (value or b"").decode("utf-8", "replace")
            for name, value in output.headers
            if name in _NAMED
        }
        reason, error = headers.get(n.REASON, ""), headers.get(n.ERROR, "")
        kind = _Kind(output.topic, reason, headers.get(n.PGROUP, ""), headers.get(n.REAL_TOPIC, ""))
        if kind not in self._counts and len(self._counts) >= _MOST_KINDS:
            kind = _Kind(output.topic, reason)
        if count := self._counts.get(kind):
            count.number += 1
            count.error = error
        else:
            _warn(kind, _Count(1, error, 0.0))
            self._counts[kind] = _Count(0, "", self._monotonic())


def _warn(kind: _Kind, count: _Count) -> None:
    group = f" of group {short(kind.group)}" if kind.group else ""
    topic = f" for topic {short(kind.real_topic)}" if kind.real_topic else ""
    records = "1 record" if count.number == 1 else f"{count.number} records"
    logger.warning(
        "%s%s%s ended as %s: now in %s%s. See them: %s",
        records, group, topic, kind.reason, kind.topic, f" ({count.error})" if count.error else "",
        f"txresolver kafka console-consumer --topic {kind.topic} --from-beginning "
        "--isolation-level read_committed --formatter-property print.headers=true",
    )  # fmt: skip
