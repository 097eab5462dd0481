"""A large ledger, made without Kafka: `python -m tests.bench.big_ledger FOLDER TRANSACTIONS`.

The same number gives the same rows. They are those that land writes, in files of a batch each.
`KINDS` says what becomes of each hundred transactions. Each anomaly is 1 % of them, spread over the
whole time. Every end is an op of its own, the worst case.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from resolver.ledger import TABLES
from resolver.ledger.table import PARTITION_COLUMN, Table
from tests.support.tables import ARROW_TYPES

#: Queues, time in ms from one half to the next, and batches of land.
QUEUES, _APART_MS, _BATCHES = 4, 10, 40
_BORN_MS = 1_767_225_600_000
_GROUPS, _TOPICS = 8, 16
_MINUTE_MS = 60_000
#: What becomes of the first of each hundred; the others are committed by their application.
KINDS = (
    *("pending", "unanswered", "check_max", "expired", "undeliverable", "waiting", "released"),
    *("by_check", "by_operator", "conflict", "duplicate", "late", "mismatch", "unknown_half"),
    *("malformed_half", "malformed_op", *["rolled_back"] * 10),
)
#: Checks that are sent of each kind.
_CHECKS = {"unanswered": 3, "check_max": 3, "expired": 1, "by_check": 1, "late": 1}
_STATES = {"rolled_back": "ROLLBACK_MESSAGE", "late": "ROLLBACK_MESSAGE"}
_OUTCOMES = {
    "check_max": ("DISCARD", "LIMIT"),
    "expired": ("DISCARD", "LIMIT"),
    "undeliverable": ("UNDELIVERABLE", "DELIVERY"),
    "by_check": ("COMMIT", "CHECK"),
    "by_operator": ("COMMIT", "OPERATOR"),
    "late": ("ROLLBACK", "CHECK"),
    "rolled_back": ("ROLLBACK", "END"),
}
_OPEN = ("pending", "unanswered", "waiting")
#: Kinds without an end of their own before a check.
_UNENDED = ("pending", "unanswered", "check_max", "expired", "malformed_half")
Columns = Mapping[str, Any]


def make_ledger(folder: Path, transactions: int, batches: int = _BATCHES) -> None:
    """Make all tables. The number of transactions is a multiple of 4,000."""
    next_offsets: dict[str, int] = {}
    for table in TABLES:
        _append(folder, table, [_rows(table, {}, 0)])
    before, size = None, transactions // batches
    for first in range(0, transactions, size):
        batch = _Batch(first, size)
        # Ends that conflict come a batch later: so a file of ops names old halves too.
        written = [*batch.rows(), *(before.conflicts() if before else ())]
        before = batch
        for table in TABLES:
            parts = []
            for name, columns, count in written:
                if name == table.name:
                    begin = next_offsets.get(name, 0)
                    next_offsets[name] = begin + count
                    parts.append(
                        _rows(table, {**_source_columns(name, begin, count), **columns}, count)
                    )
            _append(folder, table, parts)


class _Batch:
    """Transactions from a number on, with all that is written about them."""

    def __init__(self, first: int, count: int) -> None:
        number = np.arange(first, first + count)
        kinds = np.array([*KINDS, *["committed"] * (100 - len(KINDS))])
        self.kind = kinds[(number * 37) % 100]
        self.queue = (number % QUEUES).astype(np.int32)
        self.offset = number // QUEUES
        self.stored_ms = _BORN_MS + number * _APART_MS
        digits = np.random.default_rng(first).bytes(16 * count).hex().encode()
        self.id = pa.array(np.frombuffer(digits, "S32").astype("U32"))
        self.group = _named("group-", number % _GROUPS)
        self.topic = _named("orders.", number % _TOPICS)

    def rows(self) -> Iterator[tuple[str, Columns, int]]:
        yield self._halves()
        yield from self._ends()
        yield from self._checks()
        yield from self._refused()
        yield from self._given_up()
        yield from self._parked()
        yield from self._outcomes()

    def _of(self, chosen: np.ndarray) -> dict[str, Any]:
        return {
            "queue": self.queue[chosen],
            "offset": self.offset[chosen],
            "transaction_id": self.id.filter(pa.array(chosen)),
            "group": self.group.filter(pa.array(chosen)),
            "topic": self.topic.filter(pa.array(chosen)),
            "born_at": self.stored_ms[chosen],
        }

    def _is(self, *kinds: str) -> np.ndarray:
        return np.isin(self.kind, kinds)

    def _halves(self) -> tuple[str, Columns, int]:
        everything = np.ones(len(self.kind), bool)
        own = self._of(everything)
        broken = pa.array(self._is("malformed_half"))
        own["group"] = pc.if_else(broken, pa.scalar(None, pa.string()), self.group)
        immunity = pa.array(np.full(len(self.kind), 5), mask=~self._is("late"))
        source = {"source_topic": "tx.half", "source_partition": own["queue"]}
        more = {"stored_at": self.stored_ms, "immunity_seconds": immunity}
        body = _body(self.id, '{"order":"', '","total":"9.90","currency":"EUR","lines":[1,2,3]}')
        position = {**source, "source_offset": own["offset"], "source_timestamp": self.stored_ms}
        written = {"key": self.group, "value": body, "headers": self._headers()}
        return "half", {**own, **more, **position, **written}, len(self.kind)

    def _headers(self) -> pa.Array:
        names = ("TRAN_MSG", "UNIQ_KEY", "PGROUP", "REAL_TOPIC", "BORN_TIMESTAMP")
        count, width = len(self.kind), len(names)
        born = pa.array(self.stored_ms).cast(pa.string())
        columns = [pa.array(["true"] * count), self.id, self.group, self.topic, born]
        # Interleave the columns: a row has a value of each.
        order = pa.array(np.arange(count * width).reshape(width, count).T.ravel())
        values = pa.concat_arrays(columns).take(order).cast(pa.binary())
        keys = pa.DictionaryArray.from_arrays(
            np.tile(np.arange(width, dtype=np.int32), count), pa.array(names)
        ).cast(pa.string())
        pairs = pa.StructArray.from_arrays([keys, values], ["key", "value"])
        return pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32) * width, pairs)

    def conflicts(self) -> Iterator[tuple[str, Columns, int]]:
        later_ms = len(self.kind) * _APART_MS
        yield self._op(self._is("conflict"), later_ms, "ROLLBACK_MESSAGE")
        yield self._refusal("conflict", "CONFLICTING_END", later_ms)

    def _ends(self) -> Iterator[tuple[str, Columns, int]]:
        plain = ~self._is(*_UNENDED)
        yield self._op(plain, 2_000, self._states(plain))
        asked = self._is("by_check", "late", "check_max")
        yield self._op(asked, 70_000, self._states(asked), from_check=True)
        yield self._op(self._is("duplicate"), _MINUTE_MS, "COMMIT_MESSAGE")

    def _states(self, chosen: np.ndarray) -> Any:
        states = {"check_max": "UNKNOWN", **_STATES}
        return pa.array([states.get(kind, "COMMIT_MESSAGE") for kind in self.kind[chosen]])

    def _op(
        self, chosen: np.ndarray, after_ms: int, state: Any, **changes: Any
    ) -> tuple[str, Columns, int]:
        own, count = self._of(chosen), int(chosen.sum())
        ends = np.arange(count + 1, dtype=np.int32)
        stored = self.stored_ms[chosen] + after_ms
        columns = {
            "queue": own["queue"],
            "tag": "d",
            "state": state,
            "group": own["group"],
            "offsets": pa.ListArray.from_arrays(ends, pa.array(own["offset"])),
            "transaction_ids": pa.ListArray.from_arrays(ends, own["transaction_id"]),
            "from_check": False,
            "stored_at": stored,
            "source_timestamp": stored,
            "value": _body(own["transaction_id"], '{"state":"COMMIT_MESSAGE","ids":["', '"]}'),
            **changes,
        }
        if not changes:
            by_hand = self._is("by_operator")[chosen]
            columns["actor"] = pa.array(np.full(count, "ann"), mask=~by_hand)
        return "op", columns, count

    def _checks(self) -> Iterator[tuple[str, Columns, int]]:
        for number in (1, 2, 3):
            chosen = self._is(*[kind for kind, checks in _CHECKS.items() if checks >= number])
            sent_ms = self.stored_ms[chosen] + number * _MINUTE_MS
            more = {"checks": number, "source_timestamp": sent_ms}
            yield "check", {**self._of(chosen), **more}, int(chosen.sum())

    def _refused(self) -> Iterator[tuple[str, Columns, int]]:
        yield self._refusal("late", "LATE_END", 4_000)
        yield self._refusal("mismatch", "GROUP_MISMATCH", 4_000)
        yield self._refusal("unknown_half", "UNKNOWN_HALF", 4_000)
        yield self._refusal("malformed_op", "MALFORMED_OP", 4_000)
        name, columns, count = self._refusal("malformed_half", "MALFORMED_HALF", 4_000)
        of_half = {"offset": None, "group": None, "element": None, "refused_topic": "tx.half"}
        yield name, {**columns, **of_half}, count

    def _refusal(self, kind: str, reason: str, after_ms: int) -> tuple[str, Columns, int]:
        chosen = self._is(kind)
        own = self._of(chosen)
        columns = {
            **own,
            "reason": reason,
            "error": f"{reason}: this is why",
            "refused_topic": "tx.op",
            "refused_offset": own["offset"],
            "element": 0,
            "source_timestamp": self.stored_ms[chosen] + after_ms,
        }
        return "quarantine", columns, int(chosen.sum())

    def _given_up(self) -> Iterator[tuple[str, Columns, int]]:
        for kind, reason in (
            ("check_max", "CHECK_MAX"),
            ("expired", "EXPIRED"),
            ("undeliverable", "UNDELIVERABLE"),
        ):
            chosen = self._is(kind)
            given_up_ms = self.stored_ms[chosen] + 4 * _MINUTE_MS
            more = {"reason": reason, "error": "no such topic", "checks": _CHECKS.get(kind, 0)}
            yield (
                "discarded",
                {**self._of(chosen), **more, "source_timestamp": given_up_ms},
                int(chosen.sum()),
            )

    def _parked(self) -> Iterator[tuple[str, Columns, int]]:
        for kind in ("released", "waiting"):
            chosen = self._is(kind)
            own = self._of(chosen)
            own["topic"] = f"{kind}.topic"
            parked_ms = self.stored_ms[chosen] + 2_500
            more = {
                "outcome": "COMMIT",
                "source": "END",
                "decided_at": parked_ms,
                "source_timestamp": parked_ms,
            }
            yield "parked", {**own, **more}, int(chosen.sum())
        last = int(self.stored_ms[-1])
        release = {"released_topic": "released.topic", "released_upto": 1 << 40}
        yield "parked", {**release, "source_timestamp": np.array([last])}, 1

    def _outcomes(self) -> Iterator[tuple[str, Columns, int]]:
        chosen = ~self._is(*_OPEN, "malformed_half")
        kinds = self.kind[chosen]
        outcomes = [_OUTCOMES.get(kind, ("COMMIT", "END")) for kind in kinds]
        by_op = ~np.isin(kinds, ("check_max", "expired"))
        ended = self.stored_ms[chosen] + np.where(
            np.isin(kinds, ("by_check", "late")), 70_000, 2_000
        )
        decided = np.where(by_op, ended + 300, self.stored_ms[chosen] + 4 * _MINUTE_MS)
        own = self._of(chosen)
        columns = {
            **own,
            "outcome": pa.array([outcome for outcome, _ in outcomes]),
            "source": pa.array([source for _, source in outcomes]),
            "op_offset": pa.array(own["offset"], mask=~by_op),
            "checks": np.array([_CHECKS.get(kind, 0) for kind in kinds]),
            "answered": np.isin(kinds, ("by_check", "late")).astype(np.int32),
            "stored_at": self.stored_ms[chosen],
            "ended_at": pa.array(ended, mask=~by_op),
            "decided_at": decided,
            "batch_id": 1,
            "query_id": "bench",
            "source_timestamp": decided,
            "key": own["transaction_id"],
            "value": _body(own["transaction_id"], '{"transaction_id":"', '","outcome":"COMMIT"}'),
        }
        yield "resolution", columns, int(chosen.sum())


def _named(prefix: str, numbers: np.ndarray) -> pa.Array:
    names = pa.array([f"{prefix}{number}" for number in range(int(numbers.max()) + 1)])
    return names.take(pa.array(numbers))


def _body(ids: pa.Array, before: str, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, ids, after, "")


def _source_columns(name: str, begin: int, count: int) -> dict[str, Any]:
    source = {"source_topic": f"tx.{name}", "source_partition": 0}
    return {**source, "source_offset": np.arange(begin, begin + count)}


def _rows(table: Table, columns: Columns, count: int) -> pa.Table:
    rows = {
        field.name: _column(field.type, columns.get(field.name), count) for field in table.fields
    }
    if count:
        rows[PARTITION_COLUMN] = rows["source_timestamp"].cast(pa.date32())
    return pa.table(rows)


def _append(folder: Path, table: Table, parts: Sequence[pa.Table]) -> None:
    rows = pa.concat_tables(parts)
    write_deltalake(folder / table.name, rows, mode="append", partition_by=[PARTITION_COLUMN])


def _column(kind: str, content: Any, count: int) -> pa.Array:
    type_ = ARROW_TYPES[kind]
    if content is None:
        return pa.nulls(count, type_)
    if isinstance(content, (str, int, bool)):
        return pa.repeat(pa.scalar(content, type_), count)
    values = content if isinstance(content, pa.Array) else pa.array(content)
    if kind == "timestamp":
        return values.cast(pa.timestamp("ms", "UTC")).cast(type_)
    return values.cast(type_)


if __name__ == "__main__":
    make_ledger(Path(sys.argv[1]), int(sys.argv[2]))
