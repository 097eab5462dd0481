"""The Delta table `operation`: who did what, when and why; written before anything is done.

The operator's command writes it, without a JVM, and nothing of it passes through Kafka: an act is
written down here even where `land` is away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from ..errors import OperationError
from ..protocol import Act
from ..views import HalfId
from ..views.rows import rows_of
from .operation import Operation

_BEGUN, _DONE = "BEGUN", "DONE"
#: Attempts at writing the table: another command may write it at the same moment.
_ATTEMPTS = 5


def _column(name: str, kind: pa.DataType, comment: str) -> pa.Field:
    return pa.field(name, kind, metadata={"comment": comment})


_HALVES = pa.list_(pa.struct([("queue", pa.int32()), ("offset", pa.int64())]))
SCHEMA = pa.schema(
    [
        _column("operation_id", pa.string(), "The operation's id"),
        _column("event", pa.string(), "BEGUN before anything is done, DONE at the end"),
        _column("at", pa.timestamp("us", "UTC"), "When it was written (UTC)"),
        _column("act", pa.string(), "settle, resume, ask, replay or erase"),
        _column("detail", pa.string(), "State of the ops, or the topic of a replay"),
        _column("actor", pa.string(), "Who acts"),
        _column("reason", pa.string(), "Why"),
        _column("halves", _HALVES, "On which transactions; null when it is done"),
        _column("hit", pa.int64(), "On how many it has acted; null when it begins"),
    ]
)
#: The schema without comments: deltalake refuses other comments than those of the table, which
#: another version of this project may have made.
_ROWS = pa.schema([field.remove_metadata() for field in SCHEMA])


class OperationTable:
    """The table in a folder or below a URI, beside the ledger's tables."""

    def __init__(self, tables: str) -> None:
        self._path = f"{tables.rstrip('/')}/operation"

    def begin(self, operation: Operation) -> None:
        """Write an operation down, before it acts."""
        halves = [{"queue": half.queue, "offset": half.offset} for half in operation.halves]
        self._append(operation, _BEGUN, operation.begun_at, {"halves": halves})

    def end(self, operation: Operation, hit: int, now: datetime) -> None:
        """Write down that an operation is done, and on how many transactions it has acted."""
        self._append(operation, _DONE, now, {"hit": hit})

    def find(self, id_: str) -> tuple[Operation, int | None]:
        """Return an operation that has begun, and what it has hit if it is done.

        Raises `OperationError` if there is none.
        """
        events = {row["event"]: row for row in self._read() if row["operation_id"] == id_}
        if row := events.get(_BEGUN):
            halves = tuple(HalfId(half["queue"], half["offset"]) for half in row["halves"])
            detail, actor, reason = (row[name] for name in ("detail", "actor", "reason"))
            operation = Operation(id_, Act(row["act"]), detail, actor, reason, halves, row["at"])
            return operation, events.get(_DONE, {}).get("hit")
        raise OperationError(
            f"no operation {id_!r} in {self._path}: `txresolver log` lists all of them"
        )

    def erased(self) -> dict[str, str]:
        """Return the halves whose messages are erased, or are being erased, by which operation."""
        return {
            str(HalfId(half["queue"], half["offset"])): row["operation_id"]
            for row in self._read()
            if row["event"] == _BEGUN and row["act"] == Act.ERASE.value
            for half in row["halves"]
        }

    def replayed_to(self, halves: Collection[HalfId]) -> set[str]:
        """Return the topics to which any of these messages were replayed."""
        return {
            row["detail"]
            for row in self._read()
            if row["event"] == _BEGUN and row["act"] == Act.REPLAY.value
            if any(HalfId(half["queue"], half["offset"]) in halves for half in row["halves"])
        }

    def all(self) -> list[dict[str, Any]]:
        """Return a row for each operation, newest first; `hit` is None until it is done."""
        rows = self._read()
        done = {row["operation_id"]: row for row in rows if row["event"] == _DONE}
        begun = [row for row in rows if row["event"] == _BEGUN]
        return [
            {
                **{name: row[name] for name in ("operation_id", "act", "detail", "actor")},
                "reason": row["reason"],
                "begun_at": row["at"],
                "done_at": done.get(row["operation_id"], {}).get("at"),
                "chosen": len(row["halves"]),
                "hit": done.get(row["operation_id"], {}).get("hit"),
            }
            for row in sorted(begun, key=lambda row: row["at"], reverse=True)
        ]

    def _append(
        self, operation: Operation, event: str, written_at: datetime, more: Mapping[str, Any]
    ) -> None:
        row = {
            "operation_id": operation.id,
            "event": event,
            "at": written_at,
            "act": operation.act.value,
            "detail": operation.detail,
            "actor": operation.actor,
            "reason": operation.reason,
            **more,
        }
        for attempts_left in reversed(range(_ATTEMPTS)):
            try:
                DeltaTable.create(self._path, SCHEMA, mode="ignore")
                write_deltalake(self._path, pa.Table.from_pylist([row], _ROWS), mode="append")
                return
            except (CommitFailedError, OSError, DeltaError) as error:
                # If two commands make the table at once, the second finds it when it tries again.
                if not attempts_left or not isinstance(error, CommitFailedError):
                    raise OperationError(
                        f"{self._path} can't be written, so nothing more is done: {error}"
                    ) from error

    def _read(self) -> list[dict[str, Any]]:
        try:
            return rows_of(DeltaTable(self._path))
        except TableNotFoundError:
            return []
        except (DeltaError, OSError) as error:
            raise OperationError(f"{self._path} can't be read: {error}") from error
