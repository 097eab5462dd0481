"""The questions to a ledger, with the same names whatever runs the SQL."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import cached_property
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

from ..errors import LedgerError, NoSuchTransaction
from ..protocol import HalfId
from ..protocol.record import printable
from ..settings import Settings
from .catalogue import VIEWS
from .filter import ALL, Filter, milliseconds
from .view import View, expanded

#: What an engine returns: a table of Arrow, or a data frame.
Rows = TypeVar("Rows")

#: A moment of the ledger: a time, or a version of each table.
Moment = datetime | Mapping[str, int]

#: The folder of the tables in a home.
_TABLES_OF_HOME = "tables"
#: Most transactions that are named where an id is not unique.
_NAMED = 10
_HALF_ID = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")

_STATUSES = """
    SELECT v.status, count(*) AS count, min(v.stored_at) AS first_stored_at,
           max(v.stored_at) AS last_stored_at
    FROM {transactions} v {where} GROUP BY v.status ORDER BY v.status
"""
_MOVES = """
    SELECT v.before, v.after, count(*) AS count FROM {diff} v {where}
    GROUP BY v.before, v.after ORDER BY v.before NULLS FIRST, v.after
"""
_NAMED_SO = """
    SELECT h.queue, h.offset, h.transaction_id FROM {half} h WHERE {condition}
    ORDER BY {exact} DESC, h.queue, h.offset LIMIT {most}
"""
_ONE = "SELECT v.* FROM {view} v WHERE v.queue = {queue} AND v.offset = {offset}"
PICKED = "SELECT v.* FROM {view} v {where}"
_LISTED = "SELECT v.* FROM {view} v {where} ORDER BY {order} {limit}"


class Questions(ABC, Generic[Rows]):
    """Asks the tables of a home, or below another folder, as they are now or as they were."""

    def __init__(
        self,
        home: str | PathLike[str],
        tables: str | PathLike[str] | None,
        settings: Settings | None,
        at: Moment | None,
    ) -> None:
        folder = f"{fspath(home)}/{_TABLES_OF_HOME}" if tables is None else fspath(tables)
        self.tables = folder.rstrip("/")
        self.at = at
        self._settings = settings or Settings()

    def transactions(self, chosen: Filter = ALL) -> Rows:
        """Return a row for each transaction, newest first."""
        return self._listed("transactions", chosen)

    def pending(self, chosen: Filter = ALL) -> Rows:
        """Return the transactions without an outcome, oldest first."""
        return self._listed("pending", chosen)

    def failures(self, chosen: Filter = ALL) -> Rows:
        """Return what was discarded, undeliverable or refused, by reason and place."""
        return self._listed("failures", chosen)

    def groups(self, chosen: Filter = ALL) -> Rows:
        """Return the producer groups: what is pending, and when each last answered."""
        return self._listed("groups", chosen)

    def rates(self, chosen: Filter = ALL) -> Rows:
        """Return how many transactions began and ended in each minute."""
        return self._listed("rates", chosen)

    def latency(self, chosen: Filter = ALL) -> Rows:
        """Return the time from op to outcome in each minute."""
        return self._listed("latency", chosen)

    def statuses(self, chosen: Filter = ALL) -> Rows:
        """Return how many transactions have each status."""
        return self._run(_STATUSES, {"where": self._where(VIEWS["transactions"], chosen)})

    def diff(self, then: Self, chosen: Filter = ALL) -> Rows:
        """Return the transactions whose status is another than it was then, oldest first."""
        return self._listed("diff", chosen, self._then(then))

    def moves(self, then: Self, chosen: Filter = ALL) -> Rows:
        """Return how many transactions went from which status to which; null: had not landed."""
        return self._run(_MOVES, {"where": self._where(VIEWS["diff"], chosen), **self._then(then)})

    def timeline(self, half_id: HalfId) -> Rows:
        """Return all that befell a transaction, in order."""
        return self._run(VIEWS["timeline"].sql, self._of(half_id))

    def pending_row(
        self, half_id: HalfId, events: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any] | None:
        """Return a transaction's row of `pending`; None if its timeline has an end."""
        if any(_is_final(event) for event in events):
            return None
        rows = self._rows(_ONE, {"view": self._text("{pending}"), **self._of(half_id)})
        return rows[0] if rows else None

    def body(self, half_id: HalfId) -> Rows:
        """Return key, value and headers of a half."""
        return self._run(_ONE, {"view": self._text("{bodies}"), **self._of(half_id)})

    def find(self, name: str) -> HalfId:
        """Return the transaction that has a transaction id, its unique beginning, or a half id.

        Raises `NoSuchTransaction` if there is none, or more than one.
        """
        if half_id := _HALF_ID.fullmatch(name):
            condition, exact = f"h.queue = {int(half_id[1])} AND h.offset = {int(half_id[2])}", "1"
        else:
            # The greatest character stands behind all that an id can go on with.
            last = self._quoted(f"{name}\U0010ffff")
            condition = f"h.transaction_id BETWEEN {self._quoted(name)} AND {last}"
            exact = f"CASE WHEN h.transaction_id = {self._quoted(name)} THEN 1 ELSE 0 END"
        chosen = {"condition": condition, "exact": exact, "most": str(_NAMED + 1)}
        rows = self._rows(_NAMED_SO, chosen)
        named = [row for row in rows if row["transaction_id"] == name] or rows
        if len(named) != 1:
            raise _not_one(name, named, self.tables)
        return HalfId(named[0]["queue"], named[0]["offset"])

    def _listed(self, name: str, chosen: Filter, values: Mapping[str, str] | None = None) -> Rows:
        view, values = VIEWS[name], dict(values or {})
        where = self._where(view.chosen or view, chosen)
        if view.chosen is not None:
            part = view.chosen.name
            picked = {"view": self._text("{" + part + "}"), "where": where}
            values[part], where = f"({self._text(PICKED, picked)})", ""
        listed = {
            "view": self._text("{" + name + "}", values),
            "where": where,
            "order": view.order or "",
            "limit": f"LIMIT {chosen.limit}" if chosen.limit else "",
        }
        return self._run(_LISTED, listed)

    def _where(self, view: View, chosen: Filter) -> str:
        return chosen.where(view, self.now, self._quoted)

    @property
    def now(self) -> datetime:
        """The time that ages are counted to: the present, or that of the moment."""
        return self.at if isinstance(self.at, datetime) else datetime.now(timezone.utc)

    def _of(self, half_id: HalfId) -> dict[str, str]:
        return {"queue": str(half_id.queue), "offset": str(half_id.offset)}

    @cached_property
    def _values(self) -> dict[str, str]:
        """The values that every SQL text may use: the times that checks wait for."""
        settings = self._settings
        interval = settings.transaction_check_interval_ms
        longest = interval
        if not settings.count_unanswered_checks:
            longest = max(interval, settings.check_backoff_max_ms)
        return {
            "timeout_ms": str(settings.transaction_timeout_ms),
            "interval_ms": str(interval),
            "longest_ms": str(longest),
            "reserved_seconds": str(settings.file_reserved_ms // 1000),
        }

    def _text(self, sql: str, values: Mapping[str, str] | None = None) -> str:
        now = {"now_ms": str(milliseconds(self.now))}
        return expanded(sql, VIEWS, {**self._names(), **self._values, **now, **(values or {})})

    def _run(self, sql: str, values: Mapping[str, str] | None = None) -> Rows:
        return self._asked(self._text(sql, values))

    def _no_table(self, name: str) -> LedgerError:
        return LedgerError(
            f"no ledger in {self.tables}: there is no table {name}. `txresolver up` makes it "
            "when it is ready",
            remedy="name another home with --home, or the folder of its tables with --tables",
        )

    def _unreadable(self, name: str, error: str) -> LedgerError:
        return LedgerError(
            f"{self.tables}/{name} can't be read: {error}",
            remedy="see that its files are there and may be read",
        )

    def _refused(self, error: str) -> LedgerError:
        return LedgerError(
            f"asking the tables in {self.tables}: {error}",
            remedy="see that the question is right, and that their files may be read",
        )

    @abstractmethod
    def _names(self) -> Mapping[str, str]:
        """Return what stands for each table in SQL."""

    @abstractmethod
    def _then(self, then: Self) -> Mapping[str, str]:
        """Return what stands for the tables and views as they were."""

    @abstractmethod
    def _asked(self, sql: str) -> Rows:
        """Run a text without placeholders."""

    @abstractmethod
    def _rows(self, sql: str, values: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Run a text with placeholders that returns few rows."""

    @abstractmethod
    def _quoted(self, text: str) -> str:
        """Return a text as a literal of SQL."""


def version_in(versions: Mapping[str, int], name: str) -> int:
    """Return the version of a table that a moment names."""
    if name not in versions:
        raise LedgerError(
            f"no version of table {name} is given", remedy="give all, as `versions` does"
        )
    return versions[name]


def _is_final(event: Mapping[str, Any]) -> bool:
    is_refused_half = event["event"] == "refused" and event["op_offset"] is None
    return event["event"] == "outcome" or is_refused_half


def _not_one(name: str, rows: list[dict[str, Any]], tables: str) -> NoSuchTransaction:
    if not rows:
        return NoSuchTransaction(
            f"no transaction {name!r} in {tables}",
            remedy="give a transaction id, its beginning, or queue:offset; one that began just now "
            "may not have landed yet",
        )
    named = [f"{row['queue']}:{row['offset']} ({printable(row['transaction_id'])})" for row in rows]
    more = " and more" if len(rows) > _NAMED else ""
    is_whole = all(row["transaction_id"] == name for row in rows)
    what = "the id" if is_whole else "the beginning"
    return NoSuchTransaction(
        f"{name!r} is {what} of {', '.join(named[:_NAMED])}{more}",
        remedy="give one by queue:offset",
    )
