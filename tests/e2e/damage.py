"""What can be wrong with a ledger: one thing after the other is done to a copy of a genuine one."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import OFFSET_END, Message, TopicPartition
from deltalake import DeltaTable, write_deltalake

from resolver.audit.report import Invariant
from resolver.protocol import Headers, Record
from resolver.topic_admin import await_topics

from .ledger_story import Story
from .world import Sent, header, headers_of


@dataclass(frozen=True)
class Damage:
    """Something that was done: under which invariant it must be found, with which transaction."""

    name: str
    invariant: Invariant
    transaction_id: str | None
    half: str | None


Row = dict[str, Any]


class Copy:
    """A copy of a story's tables, to be damaged: rows in memory until they are saved."""

    def __init__(self, story: Story, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(story.tables, folder)
        self._rows: dict[str, list[Row]] = {}

    def change(self, table: str, sent: Sent, **values: Any) -> None:
        """Change columns of a transaction's rows; a value is new, or what makes it of the old."""
        self.change_where(table, _of(sent), **values)

    def change_where(self, table: str, where: Callable[[Row], bool], **values: Any) -> None:
        changed = [_changed_row(row, values) if where(row) else row for row in self._rows_of(table)]
        assert changed != self._rows[table]
        self._rows[table] = changed

    def remove(self, table: str, sent: Sent) -> None:
        self.remove_where(table, _of(sent))

    def remove_where(self, table: str, where: Callable[[Row], bool]) -> None:
        self._rows[table] = [row for row in self._rows_of(table) if not where(row)]

    def last_end(self, sent: Sent) -> tuple[int, int]:
        """Return the last op that names a transaction: its offset, and where in it that is."""
        return max(
            (int(row["source_offset"]), row["offsets"].index(sent.offset))
            for row in self._rows_of("op")
            if row["queue"] == sent.queue and sent.offset in (row["offsets"] or [])
        )

    def last_op(self, sent: Sent) -> int:
        return self.last_end(sent)[0]

    def repeat(self, table: str, sent: Sent, **values: Any) -> None:
        """Add a transaction's rows once more, with other values."""
        self.repeat_where(table, _of(sent), **values)

    def repeat_where(self, table: str, where: Callable[[Row], bool], **values: Any) -> None:
        rows = self._rows_of(table)
        rows += [_changed_row(row, values) for row in rows if where(row)]

    def save(self) -> None:
        """Write the tables that were changed."""
        for name, rows in self._rows.items():
            table = DeltaTable(self.folder / name)
            schema = pa.schema(table.schema().to_arrow())
            write_deltalake(table, pa.Table.from_pylist(rows, schema), mode="overwrite")

    def _rows_of(self, table: str) -> list[Row]:
        if table not in self._rows:
            rows = DeltaTable(self.folder / table).to_pyarrow_table().to_pylist()
            self._rows[table] = rows
        return self._rows[table]


def _changed_row(row: Row, values: dict[str, Any]) -> Row:
    return row | {
        name: value(row[name]) if callable(value) else value for name, value in values.items()
    }


def _of(sent: Sent) -> Callable[[Row], bool]:
    return lambda row: (row["queue"], row["offset"]) == (sent.queue, sent.offset)


def _place(sent: Sent) -> Row:
    return {"queue": sent.queue, "offset": sent.offset, "source_offset": _more(100_000)}


def _more(count: int) -> Callable[[int], int]:
    return lambda value: value + count


def damage_tables(copy: Copy, story: Story) -> Iterator[Damage]:
    """Damage the tables, and save them."""
    plain, rolled_back = iter(story.committed), iter(story.rolled_back)
    yield from _damage_presence(copy, story, plain, rolled_back)
    yield from _damage_ends(copy, story, plain, rolled_back)
    yield from _damage_limits(copy, story, plain)
    yield from _damage_refusals(copy, story, plain)
    copy.save()


def _done(name: str, invariant: Invariant, sent: Sent) -> Damage:
    return Damage(name, invariant, sent.half.transaction_id, sent.at)


def _damage_presence(
    copy: Copy, story: Story, plain: Iterator[Sent], rolled_back: Iterator[Sent]
) -> Iterator[Damage]:
    sent = next(plain)
    copy.remove("resolution", sent)
    yield _done("outcome missing, and passed by", Invariant.ONE_OUTCOME, sent)
    sent = next(plain)
    copy.repeat("resolution", sent)
    yield _done("outcome doubled", Invariant.ONE_OUTCOME, sent)
    sent = next(rolled_back)
    copy.remove("half", sent)
    yield _done("outcome without a half", Invariant.ONE_OUTCOME, sent)
    sent = next(plain)
    copy.repeat("half", sent)
    yield _done("half landed twice", Invariant.ONE_OUTCOME, sent)
    repeated = story.by_name["repeated"]
    place = (repeated.queue, copy.last_op(repeated))
    copy.repeat_where("op", lambda row: (row["queue"], row["source_offset"]) == place)
    yield _done("op landed twice", Invariant.ONE_OUTCOME, repeated)
    sent = next(plain)
    copy.change("half", sent, headers=_without_mark)
    yield _done("outcome of a malformed half", Invariant.ONE_OUTCOME, sent)
    yield _done("malformed half not in quarantine", Invariant.QUARANTINE, sent)


def _damage_ends(
    copy: Copy, story: Story, plain: Iterator[Sent], rolled_back: Iterator[Sent]
) -> Iterator[Damage]:
    for name, changes in _WRONG_OUTCOMES.items():
        sent = next(plain)
        copy.change("resolution", sent, **changes)
        yield _done(name, Invariant.FIRST_END, sent)
    second = story.by_name["second"]
    copy.change("resolution", second, outcome="ROLLBACK", op_offset=copy.last_op(second))
    yield _done("outcome of the second end", Invariant.FIRST_END, second)
    pending, other = story.by_name["pending"], next(rolled_back)
    its_own = {
        "transaction_id": pending.half.transaction_id,
        "stored_at": datetime.fromtimestamp(pending.stored_at_ms / 1_000, timezone.utc),
    }
    copy.repeat("resolution", other, **its_own, **_place(pending))
    yield _done("outcome, and no end", Invariant.FIRST_END, pending)
    settled = story.by_name["settled"]
    copy.change_where("op", lambda row: row["actor"] is not None, actor=None)
    yield _done("operator's record missing", Invariant.OPERATOR, settled)


def _damage_limits(copy: Copy, story: Story, plain: Iterator[Sent]) -> Iterator[Damage]:
    asked, late = story.by_name["asked"], story.by_name["late"]
    copy.repeat("check", asked, checks=_more(1), source_offset=_more(100_000))
    yield _done("check after the outcome", Invariant.NO_CHECK_AFTER, asked)
    copy.repeat("check", late, source_offset=_more(100_000))
    yield _done("check sent twice", Invariant.CHECK_MAX, late)
    for name, changes in _WRONG_COUNTS.items():
        sent = next(plain)
        copy.change("resolution", sent, **changes)
        yield _done(name, Invariant.CHECK_MAX, sent)
    given_up = story.by_name["given_up"]
    copy.change("resolution", given_up, answered=1)
    yield _done("given up too early", Invariant.FIRST_END, given_up)
    sent = next(plain)
    copy.repeat_where("discarded", _of(given_up), **_place(sent))
    yield _done("delivered, and given up too", Invariant.GIVEN_UP, sent)
    lost, another, doubled = story.undeliverable
    copy.remove("discarded", lost)
    yield _done("given up and lost", Invariant.GIVEN_UP, lost)
    copy.change("discarded", another, reason="CHECK_MAX")
    yield _done("given up for another reason", Invariant.GIVEN_UP, another)
    copy.repeat("discarded", doubled, source_offset=_more(100_000))
    yield _done("given up twice", Invariant.GIVEN_UP, doubled)


def _damage_refusals(copy: Copy, story: Story, plain: Iterator[Sent]) -> Iterator[Damage]:
    named = story.by_name
    sent, conflict, late = next(plain), named["conflict"], named["late"]
    op_offset, element = copy.last_end(sent)
    copy.repeat(
        "quarantine",
        conflict,
        transaction_id=sent.half.transaction_id,
        refused_offset=op_offset,
        element=element,
        **_place(sent),
    )
    yield _done("refused, and was the first end", Invariant.QUARANTINE, sent)
    copy.remove("quarantine", conflict)
    yield _done("refusal missing", Invariant.QUARANTINE, conflict)
    copy.repeat("quarantine", named["mismatch"])
    yield _done("refusals doubled", Invariant.QUARANTINE, named["mismatch"])
    copy.change("quarantine", late, reason="CONFLICTING_END")
    yield _done("refused for another reason", Invariant.QUARANTINE, late)
    yield from _damage_malformed(copy, named["malformed"], named["spaced"], next(plain))


def _damage_malformed(
    copy: Copy, malformed: Sent, spaced: Sent, well_formed: Sent
) -> Iterator[Damage]:
    copy.change_where("quarantine", _is_malformed_half, reason="NO_PERMISSION")
    yield _done("malformed half refused as another", Invariant.QUARANTINE, malformed)
    copy.repeat_where(
        "quarantine",
        lambda row: row["reason"] == "NO_PERMISSION",
        reason="MALFORMED_HALF",
        **_refused_place(well_formed.queue, well_formed.offset),
    )
    yield _done("refused as malformed, and is not", Invariant.QUARANTINE, well_formed)
    place = _refused_place(spaced.queue, copy.last_op(spaced))
    copy.change_where("quarantine", lambda row: row["value"] == b"{}", **place)
    yield _done("its op was refused as a whole", Invariant.FIRST_END, spaced)
    yield Damage("op refused as malformed, and is not", Invariant.QUARANTINE, None, None)
    yield Damage("malformed op not in quarantine", Invariant.QUARANTINE, None, None)


def _refused_place(queue: int, offset: int) -> Row:
    return {"queue": queue, "refused_offset": offset, "source_offset": _more(100_000)}


def _is_malformed_half(row: Row) -> bool:
    return bool(row["reason"] == "MALFORMED_HALF")


#: What is changed in an outcome, so that it does not follow the first end.
_WRONG_OUTCOMES: dict[str, Row] = {
    "outcome flipped": {"outcome": "ROLLBACK"},
    "by an op that is not its own": {"op_offset": lambda offset: offset + 1},
    "of another source": {"source": "CHECK"},
    "of another group": {"group": "others"},
    "ended at another time": {"ended_at": lambda at: at + timedelta(seconds=1)},
    "given up, by an op": {"outcome": "DISCARD", "source": "LIMIT"},
    "given up unasked": {"outcome": "DISCARD", "source": "LIMIT", "op_offset": None},
    "given up, and ended in time": {
        **{"outcome": "DISCARD", "source": "LIMIT", "op_offset": None},
        **{"checks": 2, "answered": 2},
    },
}
#: What is changed in an outcome, so that its checks can't be.
_WRONG_COUNTS: dict[str, Row] = {
    "too many counted checks": {"checks": 3, "answered": 3},
    "more answered than sent": {"checks": 0, "answered": 1},
    "more answered than there are answers": {"checks": 1, "answered": 1},
}


def _without_mark(headers: list[Row]) -> list[Row]:
    return [header for header in headers if header["key"] != "TRAN_MSG"]


Change = Callable[[Record], list[Record]]


def forget_landed(story: Story) -> None:
    """Delete from Kafka what has landed: what the tables have no more can't be read there."""
    world, names = story.world, story.world.names
    topics = world.admin.list_topics(timeout=10).topics
    places = [
        TopicPartition(name, partition, OFFSET_END)
        for name in (names.resolution, names.discarded, names.quarantine)
        for partition in topics[name].partitions
    ]
    for deleted in world.admin.delete_records(places).values():
        deleted.result(30)


def damage_topic(story: Story) -> Iterator[Damage]:
    """Make the real topic anew, with some of its messages lost, doubled or changed."""
    world = story.world
    kept = {header(one, "HALF_OFFSET"): one for one in world.reader(world.real).all()}
    plain = reversed(story.committed)
    changes: dict[str | None, Change] = {}
    for name, change in _CHANGES.items():
        sent = next(plain)
        changes[sent.at] = change
        yield Damage(name, Invariant.DELIVERED, sent.half.transaction_id, sent.at)
    placed = next(one for one in story.committed[18:] if one.half.real_qid is not None)
    changes[placed.at] = lambda record: _changed(record, partition=(record.partition + 1) % 3)
    yield Damage("elsewhere", Invariant.DELIVERED, placed.half.transaction_id, placed.at)
    ghosts = [story.rolled_back[-1], story.by_name["given_up"], story.by_name["pending"]]
    for sent in ghosts:
        yield Damage("a ghost", Invariant.NOT_DELIVERED, sent.half.transaction_id, sent.at)
    world.admin.delete_topics([world.real])[world.real].result(30)
    _await_gone(story)
    world.make_topic(world.real, world.partitions)
    await_topics(world.admin, [world.real])
    records = [
        changed
        for at, message in kept.items()
        for changed in changes.get(at, lambda record: [record])(_record(message))
    ]
    _produce(story, [*records, *(_ghost(sent) for sent in ghosts)])


def _await_gone(story: Story) -> None:
    until = time.monotonic() + 30
    while story.world.real in story.world.admin.list_topics(timeout=10).topics:
        assert time.monotonic() < until
        time.sleep(0.05)


def _record(message: Message) -> Record:
    return Record(
        str(message.topic()),
        message.key(),
        message.value(),
        headers_of(message),
        message.partition() or 0,
        message.timestamp()[1],
    )


def _ghost(sent: Sent) -> Record:
    headers: Headers = [
        ("UNIQ_KEY", sent.half.transaction_id.encode()),
        ("PGROUP", sent.half.group.encode()),
        ("HALF_OFFSET", sent.at.encode()),
    ]
    half = sent.half
    return Record(half.topic, half.key, half.body, headers, 0, sent.stored_at_ms)


def _produce(story: Story, records: list[Record]) -> None:
    for record in records:
        story.world.producer.produce(
            record.topic,
            record.value,
            record.key,
            record.partition,
            timestamp=record.timestamp_ms,
            headers=record.headers,
        )
    assert story.world.producer.flush(60) == 0


def _changed(record: Record, **fields: Any) -> list[Record]:
    return [record._replace(**fields)]


_CHANGES: dict[str, Change] = {
    "lost": lambda record: [],
    "doubled": lambda record: [record, record],
    "another body": lambda record: _changed(record, value=b"another"),
    "a key for none": lambda record: _changed(record, key=b"" if record.key is None else None),
    "another time": lambda record: _changed(record, timestamp_ms=record.timestamp_ms + 1),
    "another header": lambda record: _changed(record, headers=[("a", b"2"), *record.headers]),
}
