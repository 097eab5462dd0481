"""Erases messages from the ledger: key, value and headers of their rows, and their older files.

docs/operations.md says what an erasure can't do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta, timezone
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, PostCommitHookProperties
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow import compute as pc
from pyarrow import fs

from ..errors import OperationError
from ..protocol import Names
from ..protocol.names import ERASED, RESUMES
from ..settings import Settings
from ..views import HalfId, Ledger
from ..views.rows import rows_of
from .operation import Operation

logger = logging.getLogger(__name__)

#: Transactions that are erased by one rewriting of their files.
CHUNK = 10_000
#: Attempts at rewriting a day of a table, whose files another writer may change meanwhile, and the
#: pause between two attempts, in seconds.
_ATTEMPTS, _PAUSE_SECONDS = 10, 0.3
#: Age above which no writer will add a file that the log does not know.
_SURELY_ADDED = timedelta(days=1)
#: Spark keeps the log's checkpoints, as it does for land.
SPARK_KEEPS_THE_LOG = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class Copies(NamedTuple):
    """A table that has copies of messages, and how its rows name the half."""

    table: str
    offset: str = "offset"
    condition: str = "true"

    def are_of(self, halves: Collection[HalfId]) -> str:
        """Return the condition in SQL that a row is a copy of one of these halves."""
        one_of = " OR ".join(
            f"(queue = {queue} AND {self.offset} IN ({', '.join(str(h.offset) for h in of_queue)}))"
            for queue, of_queue in _by_queue(halves)
        )
        return f"({one_of}) AND {self.condition}"


def copies(names: Names) -> tuple[Copies, ...]:
    """Return the tables that have a message's key, value and headers; the halves come first."""
    refused = f"element IS NULL AND refused_topic = '{names.half}'"
    return (
        Copies("half"),
        Copies("check"),
        Copies("discarded"),
        Copies("parked"),
        Copies("quarantine", "refused_offset", refused),
    )


class Erasure:
    """An erasure on its way; it can be begun again at any time, by anybody.

    A row that is erased keeps its columns of the protocol. Its key and value are null. Its one
    header is ERASED, with the operation's id; a half that was resumed keeps RESUMES behind it.
    """

    def __init__(self, operation: Operation, ledger: Ledger, settings: Settings) -> None:
        self._operation = operation
        self._tables = ledger.tables
        self._copies = copies(Names(settings.topic_prefix))
        #: Always empty: an erasure writes no record that Kafka could refuse.
        self.left_out: tuple[HalfId, ...] = ()

    def run(self, tell: Callable[[int], None]) -> int:
        """Erase the messages that are left; return how many transactions are erased.

        `tell` is told this number after each chunk. Raises `OperationError` if it can't go on.
        """
        halves = self._operation.halves
        for first in range(0, len(halves), CHUNK):
            chunk = halves[first : first + CHUNK]
            for kind in self._copies:
                with self._told(kind.table, first):
                    self._erase(kind, chunk)
            tell(first + len(chunk))
        return len(halves)

    def _erase(self, kind: Copies, halves: Sequence[HalfId]) -> None:
        path, condition = f"{self._tables}/{kind.table}", kind.are_of(halves)
        for attempt in range(_ATTEMPTS):
            days = _days(path, f"{condition} AND NOT coalesce({_IS_ERASED}, false)")
            if not days:
                break
            for day in days:
                self._rewrite(path, f"date = DATE '{day}' AND {condition}", attempt)
        else:
            raise OperationError(f"{path} is changed by others again and again")
        for day in _days(path, condition):
            _drop_old_files(path, day, kind, halves)

    def _rewrite(self, path: str, condition: str, attempt: int) -> None:
        """Rewrite the files that have the rows; land's rows and its notes stay as they are."""
        own = f"named_struct('key', '{ERASED}', 'value', cast('{self._operation.id}' AS bytea))"
        resumes = f"get_field(array_element(headers, -1), 'key') = '{RESUMES}'"
        headers = (
            f"CASE WHEN {_IS_ERASED} THEN headers "
            f"WHEN {resumes} THEN make_array({own}, array_element(headers, -1)) "
            f"ELSE make_array({own}) END"
        )
        try:
            DeltaTable(path).update(
                predicate=condition,
                updates={"key": "NULL", "value": "NULL", "headers": headers},
                post_commithook_properties=SPARK_KEEPS_THE_LOG,
            )
        except (DeltaError, OSError) as error:
            if attempt == _ATTEMPTS - 1:
                raise
            logger.info("%s: %s; it is rewritten again", path, error)
            time.sleep(_PAUSE_SECONDS)

    @contextmanager
    def _told(self, table: str, erased: int) -> Iterator[None]:
        """Raise errors of the tables with how far the erasure came."""
        try:
            yield
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise OperationError(
                f"operation {self._operation.id} has erased {erased} of "
                f"{len(self._operation.halves)} transactions, and stopped at table {table}: "
                f"{error}",
                remedy=f"go on with `txresolver continue {self._operation.id}`",
            ) from error


_DAYS = "SELECT DISTINCT date FROM t WHERE {condition} ORDER BY date"
#: Headers of an erased row: ERASED, and perhaps RESUMES. A half with a header ERASED of its own has
#: more headers.
_MOST_HEADERS = 2
_IS_ERASED = (
    f"(key IS NULL AND value IS NULL AND array_length(headers) <= {_MOST_HEADERS} "
    f"AND get_field(array_element(headers, 1), 'key') = '{ERASED}')"
)


def _days(path: str, condition: str) -> list[date]:
    """Return the days that have such rows, as the table is now."""
    return [row["date"] for row in rows_of(DeltaTable(path), _DAYS.format(condition=condition))]


def _drop_old_files(path: str, day: date, kind: Copies, halves: Collection[HalfId]) -> None:
    """Remove the files of a day that have one of these messages: older versions read them.

    Present versions do not: they have been rewritten. Vacuum would remove such files after a week.
    A file that the log does not know may be one that land is about to add, unless it is old.
    """
    files = fs.PyFileSystem(DeltaStorageHandler(path))
    there = files.get_file_info(fs.FileSelector(f"date={day}", allow_not_found=True))
    table = DeltaTable(path)  # opened after the files were listed: it knows all that are added
    in_use = set(pa.table(table.get_add_actions(flatten=True))["path"].to_pylist())
    removed = set(table.vacuum(0, dry_run=True, enforce_retention_duration=False))
    old = datetime.now(timezone.utc) - _SURELY_ADDED
    for file in there:
        if not file.path.endswith(".parquet") or file.path in in_use:
            continue
        if file.path not in removed and (file.mtime is None or file.mtime > old):
            continue
        read = ds.dataset(
            file.path, pa.schema(table.schema().to_arrow()), filesystem=files, format="parquet"
        )
        if _has_a_message(read, kind, halves):
            files.delete_file(file.path)


def _has_a_message(file: ds.Dataset, kind: Copies, halves: Collection[HalfId]) -> bool:
    try:
        rows = file.to_table(["key", "value", "headers"], filter=_is_of(kind, halves))
    except (pa.ArrowInvalid, FileNotFoundError):
        return False  # another writer has not finished the file, or has removed it
    return any(not is_erased(row) for row in rows.to_pylist())


def _is_of(kind: Copies, halves: Collection[HalfId]) -> pc.Expression:
    conditions = [
        (pc.field("queue") == queue)
        & pc.field(kind.offset).isin([half.offset for half in of_queue])
        for queue, of_queue in _by_queue(halves)
    ]
    of_any = conditions[0]
    for condition in conditions[1:]:
        of_any = of_any | condition
    return of_any


def is_erased(row: Mapping[str, Any]) -> bool:
    """Whether an erasure has taken the message out of a row."""
    headers = row["headers"] or [{"key": None}]
    is_empty = row["key"] is None and row["value"] is None and len(headers) <= _MOST_HEADERS
    return is_empty and headers[0]["key"] == ERASED


def _by_queue(halves: Collection[HalfId]) -> Iterator[tuple[int, list[HalfId]]]:
    for queue, of_queue in groupby(sorted(halves), key=lambda half: half.queue):
        yield queue, list(of_queue)
