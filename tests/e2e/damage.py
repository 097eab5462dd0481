"""What can be wrong with a ledger: one thing after the other is done to a copy of a genuine one."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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

    def last_op(self, sent: Sent) -> int:
        """Return the offset of the last op that names a transaction."""
        return max(
            int(row["source_offset"])
            for row in self._rows_of("op")
            if row["queue"] == sent.queue and sent.offset in (row["offsets"] or [])
        )

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
    named = story.by_name

    def done(name: str, invariant: Invariant, sent: Sent) -> Damage:
        return Damage(name, invariant, sent.half.transaction_id, sent.at)

    sent = next(plain)
    copy.change("resolution", sent, outcome="ROLLBACK")
    yield done("outcome flipped", Invariant.FIRST_END, sent)
    sent = next(plain)
    copy.change("resolution", sent, op_offset=_more(1))
    yield done("by an op that is not its own", Invariant.FIRST_END, sent)
    sent = next(plain)
    copy.change("resolution", sent, source="CHECK")
    yield done("of another source", Invariant.FIRST_END, sent)
    sent = next(plain)
    copy.remove("resolution", sent)
    yield done("outcome missing, and passed by", Invariant.ONE_OUTCOME, sent)
    sent = next(plain)
    copy.repeat("resolution", sent)
    yield done("outcome doubled", Invariant.ONE_OUTCOME, sent)
    sent = next(rolled_back)
    copy.remove("half", sent)
    yield done("outcome without a half", Invariant.ONE_OUTCOME, sent)
    sent = next(plain)
    copy.repeat("half", sent)
    yield done("half landed twice", Invariant.ONE_OUTCOME, sent)
    repeated = named["repeated"]
    place = (repeated.queue, copy.last_op(repeated))
    copy.repeat_where("op", lambda row: (row["queue"], row["source_offset"]) == place)
    yield done("op landed twice", Invariant.ONE_OUTCOME, repeated)
    sent = next(plain)
    copy.change("half", sent, headers=_without_mark)
    yield done("outcome of a malformed half", Invariant.ONE_OUTCOME, sent)
    second = named["second"]
    copy.change("resolution", second, outcome="ROLLBACK", op_offset=copy.last_op(second))
    yield done("outcome of the second end", Invariant.FIRST_END, second)
    asked = named["asked"]
    copy.repeat("check", asked, checks=_more(1), source_offset=_more(100_000))
    yield done("check after the outcome", Invariant.NO_CHECK_AFTER, asked)
    settled = named["settled"]
    copy.change("resolution", settled, answered=3, checks=3)
    yield done("too many counted checks", Invariant.CHECK_MAX, settled)
    copy.change_where("op", lambda row: row["actor"] is not None, actor=None)
    yield done("operator's record missing", Invariant.OPERATOR, settled)
    conflict, mismatch = named["conflict"], named["mismatch"]
    copy.remove("quarantine", conflict)
    yield done("refusal missing", Invariant.QUARANTINE, conflict)
    copy.repeat("quarantine", mismatch)
    yield done("refusals doubled", Invariant.QUARANTINE, mismatch)
    late = named["late"]
    copy.change("quarantine", late, reason="CONFLICTING_END")
    yield done("refused for another reason", Invariant.QUARANTINE, late)
    given_up = named["given_up"]
    copy.change("resolution", given_up, answered=1)
    yield done("given up too early", Invariant.FIRST_END, given_up)
    sent = next(plain)
    copy.repeat_where("discarded", _of(given_up), **_place(sent))
    yield done("delivered, and given up too", Invariant.GIVEN_UP, sent)
    copy.remove("discarded", named["undeliverable"])
    yield done("given up and lost", Invariant.GIVEN_UP, named["undeliverable"])
    copy.change_where(
        "quarantine", lambda row: row["reason"] == "MALFORMED_HALF", reason="NO_PERMISSION"
    )
    yield done("malformed half refused as another", Invariant.QUARANTINE, named["malformed"])
    copy.remove_where(
        "quarantine", lambda row: row["reason"] == "MALFORMED_OP" and row["element"] is None
    )
    yield Damage("malformed op not in quarantine", Invariant.QUARANTINE, None, None)
    copy.save()


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
    placed = next(one for one in story.committed[12:] if one.half.real_qid is not None)
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
