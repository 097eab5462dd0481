"""A world's history for another judge, in the form of Jepsen's Kafka workload (jepsen.tests.kafka).

A line of EDN for each operation. A `send` is what a local transaction wants published, a `poll` is
what a `read_committed` consumer found in the real topics. docs/records/reliability/history.md has
what a checker can conclude. It shares nothing with our own judge.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from resolver.demo.reading import Read

from .load import FORBIDDEN, PARTITIONS, SMALL, TOPICS, UNDELIVERED, name_of
from .sent_log import COMMIT, ROLLBACK, SentLog

_TOPICS = (*TOPICS, SMALL, FORBIDDEN)
#: The key of a message that was never found: no partition has it.
NOWHERE = -1
_POLLER = 0


class History:
    """Written as it happens; each visit of a world reads the topics again, and writes it again.

    The value of a message is its number in the load's sent log, its key the partition it is in.
    """

    def __init__(self, file: Path, sent_log: SentLog) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file.open("w")
        self._sent_log = sent_log
        self._began, self._operations = time.monotonic_ns(), 0
        self._read_to = {"sent": 0, "decided": 0}
        self._number: dict[str, int] = {}
        self._decided: dict[str, str] = {}
        #: Names of messages that may not be delivered, whatever was decided.
        self._undeliverable: set[str] = set()
        #: The process of each send that has not ended; after its end it is free for another send.
        self._open: dict[str, int] = {}
        self._free: list[int] = []
        self._processes = 1
        self._key_of: dict[str, int] = {}

    def take(self, reads: Iterable[Read]) -> None:
        """Take records, until the end; the sent log is read after them, so it knows them all."""
        if self._file.closed:
            return
        self._read_sent_log()
        messages = [read for read in reads if read.topic in _TOPICS]
        if not messages:
            return
        self._poll(messages)
        for message in messages:
            name = name_of(message.headers)
            if name in self._open and self._fate(name, is_drained=True) == "ok":
                self._complete(name, "ok")

    def end(self, is_drained: bool) -> None:
        """End what is open. `is_drained`: what was committed and not found by now is lost."""
        if self._file.closed:
            return
        self._read_sent_log()
        for name in list(self._open):
            self._complete(name, self._fate(name, is_drained))
        self._file.close()

    def _fate(self, name: str, is_drained: bool) -> str:
        """Return how a send has ended, as far as the load's sent log knows."""
        decided = self._decided.get(name)
        if decided == ROLLBACK or name in self._undeliverable:
            return "fail"
        if not is_drained:
            return "info"
        # Where nothing was decided nobody can decide any more.
        return "ok" if decided == COMMIT else "fail"

    def _read_sent_log(self) -> None:
        for number, sent in self._sent_log.sent_after(self._read_to["sent"]):
            self._read_to["sent"] = self._number[sent.name] = number
            if sent.fate in UNDELIVERED:
                self._undeliverable.add(sent.name)
            self._open[sent.name] = self._free.pop() if self._free else self._new_process()
            self._write("invoke", "send", f"[[:send {NOWHERE} {number}]]", self._open[sent.name])
        for number, decided in self._sent_log.decided_after(self._read_to["decided"]):
            self._read_to["decided"] = number
            self._decided[decided.name] = decided.outcome

    def _new_process(self) -> int:
        self._processes += 1
        return self._processes - 1

    def _poll(self, messages: list[Read]) -> None:
        """Write what was read as one poll, each partition's in the order in which it came."""
        self._write("invoke", "poll", "[[:poll]]", _POLLER)
        logs = []
        for key, of_key in groupby(sorted(messages, key=_key), _key):
            pairs = []
            for message in of_key:
                name = name_of(message.headers)
                self._key_of.setdefault(name, key)
                pairs.append(f"[{message.offset} {self._number[name]}]")
            logs.append(f"{key} [{' '.join(pairs)}]")
        self._write("ok", "poll", f"[[:poll {{{', '.join(logs)}}}]]", _POLLER)

    def _complete(self, name: str, kind: str) -> None:
        process = self._open.pop(name)
        if kind != "info":  # Jepsen's process is over then
            self._free.append(process)
        key = self._key_of.get(name, NOWHERE)
        self._write(kind, "send", f"[[:send {key} [nil {self._number[name]}]]]", process)
        self._decided.pop(name, None)

    def _write(self, kind: str, function: str, value: str, process: int) -> None:
        self._file.write(
            f"{{:index {self._operations}, :type :{kind}, :f :{function}, :value {value}, "
            f":process {process}, :time {time.monotonic_ns() - self._began}}}\n"
        )
        self._operations += 1


def _key(message: Read) -> int:
    """Return the number of a partition among those of all real topics."""
    return _TOPICS.index(message.topic) * PARTITIONS + message.partition
