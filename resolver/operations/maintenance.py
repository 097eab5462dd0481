"""Keeps the tables small: removes days that are too old, and puts the files of a day together.

It may run beside land, and be killed at any time: each step is one commit, or nothing. The files
that belong to no version any more are land's to remove: land does so each day.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from ..errors import OperationError
from ..settings import Settings
from ..views import Ledger
from ..views.view import TABLES
from .erasure import SPARK_KEEPS_THE_LOG

logger = logging.getLogger(__name__)

_OLDEST = "SELECT min(p.stored_at) AS at FROM pending p"


@dataclass(frozen=True)
class Maintained:
    """What was done to a table, or would be: days removed, and days with files put together."""

    table: str
    kept_from: date | None
    removed: int
    compacted: int


def maintain(
    ledger: Ledger, settings: Settings, now: datetime, dry_run: bool = False
) -> Iterator[Maintained]:
    """Remove old days from each table by its setting, and compact the days before today.

    The day of the oldest pending or parked half, and all later days, are kept. Raises
    `OperationError` if a table can't be read or written.
    """
    # Ask before anything is removed, and remove outcomes last: a half whose outcome is gone would
    # seem to pend.
    [oldest] = ledger.sql(_OLDEST).to_pylist()
    needed = oldest["at"].date() if oldest["at"] is not None else now.date()
    for name in TABLES:
        days = getattr(settings, f"keep_{name}_days")
        kept_from = min(needed, now.date() - timedelta(days=days)) if days else None
        if kept_from and name == "resolution":
            # By Kafka's clocks an outcome may be stored the day before its half.
            kept_from -= timedelta(days=1)
        path = f"{ledger.tables}/{name}"
        try:
            removed = _remove(path, kept_from, dry_run) if kept_from else 0
            compacted = _compact(path, now.date(), dry_run)
        except (DeltaError, OSError) as error:
            raise OperationError(
                f"{path} can't be maintained: {error}",
                remedy="begin again: what is done is not done twice",
            ) from error
        yield Maintained(name, kept_from, removed, compacted)


def _remove(path: str, kept_from: date, dry_run: bool) -> int:
    """Remove the files of all days before `kept_from`; return how many days these were."""
    table = DeltaTable(path)
    days = [day for day in _files(table) if day < kept_from]
    if days and not dry_run:
        table.delete(f"date < DATE '{kept_from}'", post_commithook_properties=SPARK_KEEPS_THE_LOG)
    return len(days)


def _compact(path: str, today: date, dry_run: bool) -> int:
    """Put the files of past days together; return how many days that were.

    A day that another writer has changed meanwhile is left for the next time.
    """
    table = DeltaTable(path)
    past = sorted(day for day, files in _files(table).items() if files > 1 and day < today)
    if dry_run:
        return len(past)
    return sum(_compact_day(table, day) for day in past)


def _compact_day(table: DeltaTable, day: date) -> bool:
    """Put the files of a day together; return whether that was possible."""
    try:
        done = table.optimize.compact(
            [("date", "=", str(day))], post_commithook_properties=SPARK_KEEPS_THE_LOG
        )
    except CommitFailedError as error:
        logger.info("%s, %s: %s; it stays as it is", table.table_uri, day, error)
        table.update_incremental()
        return False
    return bool(done["numFilesRemoved"])


def _files(table: DeltaTable) -> Mapping[date, int]:
    """Return how many files each day has."""
    files = pa.table(table.get_add_actions(flatten=True))
    return Counter(files["partition.date"].to_pylist()) if files.num_rows else {}
