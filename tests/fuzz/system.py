"""The fuzz through the running system: what Kafka's topics and the tables hold afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from deltalake import DeltaTable

from resolver.protocol import Headers, Record
from resolver.views.rows import rows_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.world import World, header, headers_of, position_of

from .aimed import FAR, AimedOp, ops_for
from .expected import End, Expectations
from .halves import Half
from .ops import no_op
from .pure import some_half

#: What a resolver needs, for the expectations to hold: no check.
SETTINGS: dict[str, Any] = {"transaction_timeout_ms": 3_600_000}
CHUNK_RECORDS = 2_000


class System:
    """Sends to the topics of a world, and compares what has become of it."""

    def __init__(self, world: World, queues: int, seed: int) -> None:
        self._world = world
        self._queues = queues
        self._random = Random(seed)  # noqa: S311
        self._expectations = Expectations(world.names)
        self.halves = self.ops = 0

    def send(self, records: int) -> Iterator[int]:
        """Send `records` records, a part at a time; yields how many were sent so far."""
        while self.halves + self.ops < records:
            for queue in range(self._queues):
                self._send_chunk(queue, min(CHUNK_RECORDS, records) // self._queues)
            yield self.halves + self.ops

    def await_refusals(self) -> list[str]:
        """Await the ends and the refusals; return what is not as it must be."""
        names = self._world.names
        ends, refusals = len(self._expectations.ends), len(self._expectations.refusals)
        for topic, expected in ((names.resolution, ends), (names.quarantine, refusals)):
            self._world.reader(topic).until(expected, PATIENCE_SECONDS)
        resolutions = self._world.resolutions(ends)
        refused = self._world.quarantined(refusals)
        differences = self._expectations.compare(
            ((_refused_part(record), str(header(record, "REASON"))) for record in refused),
            (f"{record.queue}:{record.offset}" for record in resolutions),
        )
        outcomes = {
            f"{record.queue}:{record.offset}": record.outcome.value for record in resolutions
        }
        return differences + list(self._wrong_outcomes(outcomes)) + list(self._wrong_messages())

    def wrong_tables(self, tables: Path) -> list[str]:
        """Return which tables have not landed every record once; fences are ops too."""
        expected = {
            "half": self.halves,
            "resolution": len(self._expectations.ends),
            "quarantine": len(self._expectations.refusals),
        }
        counts = {name: _rows(tables, name) for name in expected}
        differences = [
            f"{name}: {counts[name]} rows" for name in expected if counts[name] != expected[name]
        ]
        return (
            differences if _rows(tables, "op") >= self.ops else [*differences, "op: too few rows"]
        )

    def summary(self) -> str:
        """Return how many records were sent, and what becomes of them."""
        ends, refused = len(self._expectations.ends), len(self._expectations.refusals)
        return f"{self.halves} halves and {self.ops} ops: {ends} ended, {refused} refused"

    def _send_chunk(self, queue: int, records: int) -> None:
        random, world = self._random, self._world
        halves = [some_half(random, world.real, world.partitions) for _ in range(records // 2)]
        sent = self._store_halves(queue, halves)
        refused_offset = next((offset for offset, half in sent if half.refused), FAR)
        made: list[Any] = ops_for(random, sent, refused_offset)
        made += [no_op(random) for _ in range(records - len(halves) - len(made))]
        records_of = [_parts(op) for op in made]
        stored = world.produce(
            Record(world.names.op, None, value, headers, queue) for value, headers in records_of
        )
        for op, message in zip(made, stored, strict=True):
            if isinstance(op, AimedOp):
                self._expectations.op(*position_of(message), op)
            else:
                self._expectations.no_op(*position_of(message))
        self.ops += len(made)

    def _store_halves(self, queue: int, halves: list[Half]) -> list[tuple[int, Half]]:
        topic = self._world.names.half
        stored = self._world.produce(
            Record(topic, half.key, half.value, half.headers, queue) for half in halves
        )
        sent = [
            (position_of(message)[1], half) for message, half in zip(stored, halves, strict=True)
        ]
        for offset, half in sent:
            self._expectations.half(queue, offset, half)
        self.halves += len(sent)
        return sent

    def _wrong_outcomes(self, outcomes: dict[str, str]) -> Iterator[str]:
        for half_id, end in self._expectations.ends.items():
            expected = "COMMIT" if self._is_delivered(end) else "UNDELIVERABLE"
            expected = "ROLLBACK" if end.state == "ROLLBACK_MESSAGE" else expected
            if outcomes.get(half_id) != expected:
                yield f"{half_id} is {outcomes.get(half_id)}, not {expected}"

    def _wrong_messages(self) -> Iterator[str]:
        expected = {
            half_id for half_id, end in self._expectations.ends.items() if self._is_delivered(end)
        }
        for message in self._world.committed(len(expected)):
            half_id = str(header(message, "HALF_OFFSET"))
            if half_id not in expected:
                yield f"delivered, and must not be (again): {half_id}"
                continue
            expected.remove(half_id)
            half = self._expectations.ends[half_id].half
            theirs, ours = headers_of(message)[:-4], dict(headers_of(message)[-4:])
            delivered = (message.key(), message.value(), theirs)
            if delivered != (half.key, half.value, half.user_headers):
                yield f"not delivered bit for bit: {half_id}"
            names = {"UNIQ_KEY": half.transaction_id, "PGROUP": half.group, "HALF_OFFSET": half_id}
            expected_ours: dict[str, bytes | None] = {}
            expected_ours |= {name: value.encode() for name, value in names.items()}
            expected_ours["BORN_TIMESTAMP"] = dict(half.headers)["BORN_TIMESTAMP"]
            if ours != expected_ours:
                yield f"delivered as another's: {half_id}: {ours}"
            if half.real_qid not in (None, message.partition()):
                yield f"not delivered where it belongs: {half_id}: {message.partition()}"
        yield from (f"not delivered: {half_id}" for half_id in expected)

    def _is_delivered(self, end: End) -> bool:
        world, half = self._world, end.half
        partition = int(dict(half.headers).get("REAL_QID") or 0)
        is_there = half.topic == world.real and partition < world.partitions
        return end.state == "COMMIT_MESSAGE" and is_there


def _parts(made: Any) -> tuple[bytes | None, Headers]:
    return (made.value, made.headers) if isinstance(made, AimedOp) else made


def _refused_part(message: Any) -> tuple[str, int | None]:
    """Return what a quarantined record speaks of: its marks begin at the last REASON."""
    names = [name for name, _ in headers_of(message)]
    marks = dict(headers_of(message)[len(names) - 1 - names[::-1].index("REASON") :])
    element = marks.get("ELEMENT")
    return str(header(message, "SOURCE")), None if element is None else int(element)


def _rows(tables: Path, name: str) -> int:
    return len(rows_of(DeltaTable(tables / name), "SELECT source_offset FROM t"))
