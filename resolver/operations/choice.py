"""The transactions on which an operation may act, and why not on the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..errors import ActRefused, SettingsError
from ..protocol import Act, Names
from ..settings import Settings
from ..views import Filter, HalfId, Ledger

Row = Mapping[str, Any]

#: The statuses on which each act may act.
APPLIES_TO = {
    Act.SETTLE: ("PENDING",),
    Act.ASK: ("PENDING",),
    Act.RESUME: ("DISCARD", "UNDELIVERABLE"),
    Act.REPLAY: ("COMMIT",),
    Act.ERASE: ("COMMIT", "ROLLBACK", "DISCARD", "UNDELIVERABLE"),
}
_WHY = {
    Act.SETTLE: "only a pending transaction can be settled: each ends once",
    Act.ASK: "only a pending transaction is asked about",
    Act.RESUME: "only a discarded or undeliverable message is resumed: no other may come twice",
    Act.REPLAY: "only a committed message is replayed",
    Act.ERASE: "only a transaction that has ended is erased: its message is still needed",
}
#: Most refused transactions that an error names.
_NAMED = 10
#: The ends of a queue in their order: by op, then by the position within it.
_CHOSEN = """
    SELECT t.queue, t.offset, t.transaction_id, t.group, t.topic, t.status, t.checks, t.stored_at
    FROM transactions t
    LEFT JOIN resolution r ON t.queue = r.queue AND t.offset = r.offset
    LEFT JOIN op o ON r.queue = o.queue AND r.op_offset = o.source_offset
    WHERE {condition}
    ORDER BY t.queue, r.op_offset, array_position(o.offsets, t.offset), t.offset
"""


class Taken(NamedTuple):
    """Why a message can't be brought back or replayed: an operation has acted on it."""

    why: str
    operation: str


@dataclass(frozen=True)
class Choice:
    """Rows of transactions to act on, and how many of a filter's were left out, by the reason."""

    rows: Sequence[Row]
    left_out: Mapping[str, int]

    @property
    def halves(self) -> list[HalfId]:
        return [_half_id(row) for row in self.rows]

    def is_named_whole(self, ids: Sequence[str]) -> bool:
        """Whether each id is a whole one: a beginning may be another transaction's, too."""
        whole = {name for row in self.rows for name in (row["transaction_id"], str(_half_id(row)))}
        return bool(ids) and whole.issuperset(ids)


def refuse_other_topics(ledger: Ledger, settings: Settings) -> None:
    """Raise `SettingsError` if the ledger has landed from other topics than would be acted on."""
    half = Names(settings.topic_prefix).half
    for row in ledger.sql("SELECT h.source_topic FROM half h LIMIT 1").to_pylist():
        if row["source_topic"] != half:
            raise SettingsError(
                f"the tables in {ledger.tables} landed from {row['source_topic']}, and "
                f"topic_prefix is {settings.topic_prefix!r}",
                remedy="give the topic_prefix of these tables, such as --set topic_prefix=NAME",
            )


def choose(
    ledger: Ledger, act: Act, ids: Sequence[str], chosen: Filter, taken: Mapping[str, Taken]
) -> Choice:
    """Return the transactions with these ids, or else those of a filter.

    `taken` has the halves on which the act can't act any more. Raises `ActRefused` if an id names a
    transaction on which the act may not act.
    """
    if ids and chosen != Filter():
        raise SettingsError("give ids or a filter, not both")
    if ids:
        return _named(ledger, act, ids, taken)
    if chosen == Filter():
        raise SettingsError("nothing is chosen", remedy="give ids, or a filter such as --group")
    return _filtered(ledger, act, chosen, taken)


def _named(ledger: Ledger, act: Act, ids: Sequence[str], taken: Mapping[str, Taken]) -> Choice:
    halves = list(dict.fromkeys(ledger.find(id_) for id_ in ids))
    rows = ledger.sql(_CHOSEN.format(condition=_one_of(halves))).to_pylist()
    missing = set(halves) - {_half_id(row) for row in rows}
    refused = [f"{half} is no transaction: it is refused, or a fence" for half in missing]
    refused += [f"{_half_id(row)} {why}" for row in rows if (why := _why_not(act, row, taken))]
    if refused:
        more = f", and {len(refused) - _NAMED} more" if len(refused) > _NAMED else ""
        raise ActRefused(f"nothing was done: {'; '.join(sorted(refused)[:_NAMED])}{more}")
    return Choice(rows, {})


def _filtered(ledger: Ledger, act: Act, chosen: Filter, taken: Mapping[str, Taken]) -> Choice:
    if chosen.status is not None and chosen.status not in APPLIES_TO[act]:
        raise ActRefused(f"--status {chosen.status} can't be chosen for {act.value}: {_WHY[act]}")
    matching: list[Row] = []
    for status in [chosen.status] if chosen.status else APPLIES_TO[act]:
        every = replace(chosen, status=status, limit=None)
        matching += ledger.transactions(every).to_pylist()
    rows: list[Row] = []
    left_out: dict[str, int] = {}
    for row in matching:
        if why := _why_not(act, row, taken, is_named=False):
            left_out[why] = left_out.get(why, 0) + 1
        else:
            rows.append(row)
    return Choice(_in_order_of_ends(ledger, rows[: chosen.limit]), left_out)


def _in_order_of_ends(ledger: Ledger, rows: Sequence[Row]) -> Sequence[Row]:
    if not rows:
        return rows
    condition = _one_of([_half_id(row) for row in rows])
    ordered: Sequence[Row] = ledger.sql(_CHOSEN.format(condition=condition)).to_pylist()
    return ordered


def _why_not(act: Act, row: Row, taken: Mapping[str, Taken], is_named: bool = True) -> str | None:
    """Return why an act may not act on a transaction; None if it may."""
    status = row["status"]
    if status == "PARKED" and act in (Act.SETTLE, Act.ASK):
        return "is PARKED: it is committed, and waits for its topic"
    if status not in APPLIES_TO[act]:
        return f"is {status}: {_WHY[act]}"
    if act is Act.ASK and not row["checks"]:
        return "was not asked about yet: its first check comes when its immunity is over"
    if earlier := taken.get(str(_half_id(row))):
        return f"was {earlier.why}, by operation {earlier.operation}" if is_named else earlier.why
    return None


def _one_of(halves: Iterable[HalfId]) -> str:
    """Return the condition in SQL that a transaction is one of these."""
    by_queue: dict[int, list[int]] = {}
    for half in halves:
        by_queue.setdefault(half.queue, []).append(half.offset)
    return " OR ".join(
        f"(t.queue = {queue} AND t.offset IN ({', '.join(map(str, offsets))}))"
        for queue, offsets in by_queue.items()
    )


def _half_id(row: Row) -> HalfId:
    return HalfId(row["queue"], row["offset"])
