"""What can be wrong with tables: one thing after the other is done to a copy of genuine ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from resolver.audit.report import Invariant
from tests.support.world import Sent

from .copied import Copy, Row, as_if_of, more, of, place_of
from .ledger_story import Story

#: An offset that no half and no op has reached.
FAR = 10**9


@dataclass(frozen=True)
class Damage:
    """Something that was done: under which invariant it must be found, with which transaction."""

    name: str
    invariant: Invariant
    transaction_id: str | None
    half: str | None


def harmless_changes(copy: Copy, story: Story) -> Iterator[Damage]:
    """Change tables so that nothing may be found of it: they are saved with the damages."""
    named, lifted = story.by_name, story.lifted
    copy.remove("resolution", lifted)
    _refuse(copy, named["malformed"], lifted, "NO_PERMISSION")
    yield _done("refused, and committed by a rebuild since", Invariant.NOT_DELIVERED, lifted)
    unended = named["forgotten_later"]
    place = {"queue": unended.queue, "source_offset": copy.last_op(named["asked"]) + 100_000}
    copy.repeat_where(
        "op",
        lambda row: row["from_check"] and row["offsets"] == [named["asked"].offset],
        offsets=[unended.offset],
        transaction_ids=[unended.half.transaction_id],
        state="UNKNOWN",
        **place,
    )
    _refuse_end(copy, story, unended, (place["source_offset"], 0), "UNKNOWN_HALF")
    yield _done("refused with its half, whose refusal is to land", Invariant.QUARANTINE, unended)
    early = story.committed[-1]
    _end_before_its_half(copy, story, early)
    yield _done("ended before its half, for nothing, and after", Invariant.FIRST_END, early)


def _end_before_its_half(copy: Copy, story: Story, sent: Sent) -> None:
    """Let there be one, by somebody who knew its id already, and refused; the second end won."""
    fence, (last, _) = copy.first_op(sent.queue), copy.last_end(sent)
    offset = fence["source_offset"]
    copy.remove_where(
        "op", lambda row: (row["queue"], row["source_offset"]) == (sent.queue, offset)
    )
    copy.repeat_where(
        "op",
        lambda row: (row["queue"], row["source_offset"]) == (sent.queue, last),
        offsets=[sent.offset],
        transaction_ids=[sent.half.transaction_id],
        **{name: fence[name] for name in ("source_offset", "stored_at", "source_timestamp")},
    )
    _refuse_end(copy, story, sent, (offset, 0), "UNKNOWN_HALF")


def _refuse_end(copy: Copy, story: Story, sent: Sent, at: tuple[int, int], reason: str) -> None:
    op_offset, element = at
    copy.repeat(
        "quarantine",
        story.by_name["conflict"],
        reason=reason,
        refused_offset=op_offset,
        element=element,
        **as_if_of(sent),
    )


def damage_tables(copy: Copy, story: Story) -> Iterator[Damage]:
    """Damage the tables, and save them."""
    plain, rolled_back = iter(story.committed), iter(story.rolled_back)
    yield from _damage_presence(copy, story, plain, rolled_back)
    yield from _damage_ends(copy, story, plain, rolled_back)
    yield from _damage_places(copy, story, plain, rolled_back)
    yield from _damage_limits(copy, story, plain)
    yield from _damage_checks(copy, story, next(plain))
    yield from _damage_copies(copy, story)
    yield from _damage_fast(copy, story, next(plain))
    yield from _damage_refusals(copy, story, plain)
    copy.save()


def _done(name: str, invariant: Invariant, sent: Sent) -> Damage:
    return Damage(name, invariant, sent.half.transaction_id, sent.half_id)


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
    copy.repeat("check", story.by_name["asked"], **as_if_of(sent))
    yield _done("check without a half", Invariant.COPIES, sent)
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
    copy.repeat("resolution", other, **its_own, **place_of(pending))
    yield _done("outcome, and no end", Invariant.FIRST_END, pending)
    settled = story.by_name["settled"]
    copy.change_where("op", lambda row: row["actor"] is not None, actor=None)
    yield _done("operator's record missing", Invariant.OPERATOR, settled)


def _damage_places(
    copy: Copy, story: Story, plain: Iterator[Sent], rolled_back: Iterator[Sent]
) -> Iterator[Damage]:
    """Speak of ops and halves that there are not: outside of what has landed."""
    for op_offset in (FAR, -1):
        sent = next(rolled_back)
        copy.change("resolution", sent, outcome="COMMIT", op_offset=op_offset)
        yield _done(f"rolled back, and committed by op {op_offset}", Invariant.FIRST_END, sent)
        sent = next(plain)
        copy.change("resolution", sent, outcome="ROLLBACK", op_offset=op_offset)
        yield _done(f"committed, and rolled back by op {op_offset}", Invariant.FIRST_END, sent)
    sent = next(plain)
    _refuse_end(copy, story, sent, (FAR, 0), "CONFLICTING_END")
    yield _done("an op refused that is not there", Invariant.QUARANTINE, sent)
    for number, (table, like, invariant) in enumerate(
        (
            ("resolution", sent, Invariant.ONE_OUTCOME),
            ("check", story.by_name["asked"], Invariant.COPIES),
            ("discarded", story.by_name["given_up"], Invariant.COPIES),
        )
    ):
        copy.repeat(table, like, transaction_id="made up", offset=FAR + number)
        known = "made up" if table == "resolution" else None
        at = f"{like.queue}:{FAR + number}"
        yield Damage(f"{table}: a half that is not there", invariant, known, at)
    copy.repeat("resolution", sent, transaction_id="made up", queue=77)
    yield Damage(
        "of a queue that is not there", Invariant.ONE_OUTCOME, "made up", f"77:{sent.offset}"
    )
    sent = next(plain)
    copy.remove("half", sent)
    copy.change("resolution", sent, op_offset=FAR)
    yield _done("by an op that is not there, of a half that is not", Invariant.FIRST_END, sent)
    pending, nothing = story.by_name["pending"], FAR + 9
    refused = ("others", [pending.offset])
    copy.change_where(
        "op", lambda row: (row["group"], row["offsets"]) == refused, offsets=[nothing]
    )
    id_, at = pending.half.transaction_id, f"{pending.queue}:{nothing}"
    yield Damage("an end of no half, refused as another", Invariant.QUARANTINE, id_, at)


def _damage_limits(copy: Copy, story: Story, plain: Iterator[Sent]) -> Iterator[Damage]:
    asked, late = story.by_name["asked"], story.by_name["late"]
    copy.repeat("check", asked, checks=more(1), source_offset=more(100_000))
    yield _done("check after the outcome", Invariant.NO_CHECK_AFTER, asked)
    copy.repeat("check", late, source_offset=more(100_000))
    yield _done("check sent twice", Invariant.CHECK_MAX, late)
    for name, changes in _WRONG_COUNTS.items():
        sent = next(plain)
        copy.change("resolution", sent, **changes)
        yield _done(name, Invariant.CHECK_MAX, sent)
    given_up = story.by_name["given_up"]
    copy.change("resolution", given_up, answered=1)
    yield _done("given up too early", Invariant.FIRST_END, given_up)
    answers = ("UNKNOWN", [given_up.offset])
    copy.remove_where("op", lambda row: (row["state"], row["offsets"]) == answers)
    yield _done("given up, and none of its answers is there", Invariant.CHECK_MAX, given_up)
    sent = next(plain)
    copy.repeat_where("discarded", of(given_up), **place_of(sent))
    yield _done("delivered, and given up too", Invariant.GIVEN_UP, sent)
    lost, another, doubled = story.undeliverable
    copy.remove("discarded", lost)
    yield _done("given up and lost", Invariant.GIVEN_UP, lost)
    copy.change("discarded", another, reason="CHECK_MAX")
    yield _done("given up for another reason", Invariant.GIVEN_UP, another)
    copy.repeat("discarded", doubled, source_offset=more(100_000))
    yield _done("given up twice", Invariant.GIVEN_UP, doubled)
    unended = story.by_name["forgotten"]
    copy.repeat_where("discarded", of(given_up), **place_of(unended))
    yield _done("given up, and its outcome lost", Invariant.GIVEN_UP, unended)


def _damage_checks(copy: Copy, story: Story, in_time: Sent) -> Iterator[Damage]:
    forgotten, later = story.by_name["forgotten"], story.by_name["forgotten_later"]
    for sent in (forgotten, later):
        copy.change("half", sent, immunity_seconds=None)
    yield _done("overdue, and not asked about", Invariant.OVERDUE, forgotten)
    copy.repeat("check", story.by_name["asked"], **as_if_of(later))
    yield _done("asked about once, and then forgotten", Invariant.OVERDUE, later)
    copy.change("resolution", in_time, checks=1)
    yield _done("asked about, and had ended in time", Invariant.OVERDUE, in_time)


def _damage_copies(copy: Copy, story: Story) -> Iterator[Damage]:
    named, undeliverable = story.by_name, story.undeliverable[1]
    for table, sent, name, change in (
        ("check", named["late"], "check with another id", {"transaction_id": "a guess"}),
        ("check", named["settled"], "another group's check", {"source_topic": more("s")}),
        ("check", named["asked"], "check with another body", {"value": b"another"}),
        ("discarded", named["given_up"], "given up with another body", {"value": b"another"}),
        ("discarded", undeliverable, "given up with another header", {"headers": _without_mark}),
    ):
        copy.change(table, sent, **change)
        yield _done(name, Invariant.COPIES, sent)
    copy.change_where("quarantine", is_malformed_half, key=b"another")
    yield _done("refused with another key", Invariant.COPIES, named["malformed"])


def _damage_refusals(copy: Copy, story: Story, plain: Iterator[Sent]) -> Iterator[Damage]:
    named = story.by_name
    sent, conflict, late = next(plain), named["conflict"], named["late"]
    _refuse_end(copy, story, sent, copy.last_end(sent), "CONFLICTING_END")
    yield _done("refused, and was the first end", Invariant.QUARANTINE, sent)
    sent = next(plain)
    _refuse_end(copy, story, sent, copy.last_end(sent), "UNKNOWN_HALF")
    yield _done("refused as of no half, which was there", Invariant.QUARANTINE, sent)
    copy.remove("quarantine", conflict)
    yield _done("refusal missing", Invariant.QUARANTINE, conflict)
    copy.repeat("quarantine", named["mismatch"])
    yield _done("refusals doubled", Invariant.QUARANTINE, named["mismatch"])
    copy.change("quarantine", late, reason="CONFLICTING_END")
    yield _done("refused for another reason", Invariant.QUARANTINE, late)
    yield from _damage_malformed(copy, named["malformed"], named["spaced"], next(plain))
    sent = next(plain)
    _refuse(copy, named["malformed"], sent, "LATE_END")
    yield _done("half refused as an end", Invariant.QUARANTINE, sent)


def _damage_malformed(
    copy: Copy, malformed: Sent, spaced: Sent, well_formed: Sent
) -> Iterator[Damage]:
    copy.change_where("quarantine", is_malformed_half, reason="NO_PERMISSION")
    yield _done("malformed half refused as another", Invariant.QUARANTINE, malformed)
    _refuse(copy, malformed, well_formed, "MALFORMED_HALF")
    yield _done("refused as malformed, and is not", Invariant.QUARANTINE, well_formed)
    place = _refused_place(spaced.queue, copy.last_op(spaced))
    copy.change_where("quarantine", lambda row: row["value"] == b"{}", **place)
    yield _done("its op was refused as a whole", Invariant.FIRST_END, spaced)
    yield Damage("op refused as malformed, and is not", Invariant.QUARANTINE, None, None)
    yield Damage("malformed op not in quarantine", Invariant.QUARANTINE, None, None)
    copy.remove_where("quarantine", lambda row: row["value"] == b"not JSON")
    yield Damage("what is no op at all, not in quarantine", Invariant.QUARANTINE, None, None)


def _damage_fast(copy: Copy, story: Story, slow: Sent) -> Iterator[Damage]:
    named = story.by_name
    copy.change("resolution", named["fast"], delivery=None)
    yield _done(
        "said to be the resolver's, and its producer delivered it",
        Invariant.FIRST_END,
        named["fast"],
    )
    copy.remove_where("op", lambda row: row["tag"] == "revoked")
    yield _done("ended before its fast id was revoked", Invariant.FIRST_END, named["fast_waited"])
    yield _done("asked about before that", Invariant.REVOKED, named["fast_asked"])
    _refuse_end(copy, story, slow, copy.last_end(slow), "DELIVERED_TWICE")
    yield _done("delivered by its producer too", Invariant.NOT_TWICE, slow)


def _refuse(copy: Copy, malformed: Sent, half: Sent, reason: str) -> None:
    """Quarantine a half, with the bits of one that is there."""
    place = (malformed.queue, malformed.offset, b"malformed")
    copy.repeat_where(
        "quarantine",
        lambda row: (row["queue"], row["refused_offset"], row["value"]) == place,
        reason=reason,
        **_refused_place(half.queue, half.offset),
    )


def _refused_place(queue: int, offset: int) -> Row:
    return {"queue": queue, "refused_offset": offset, "source_offset": more(100_000)}


def is_malformed_half(row: Row) -> bool:
    """Whether a row of quarantine is of one."""
    return bool(row["reason"] == "MALFORMED_HALF")


#: What is changed in an outcome, so that it does not follow the first end.
_WRONG_OUTCOMES: dict[str, Row] = {
    "outcome flipped": {"outcome": "ROLLBACK"},
    "by an op that is not its own": {"op_offset": lambda offset: offset + 1},
    "of another source": {"source": "CHECK"},
    "of another group": {"group": "others"},
    "ended at another time": {"ended_at": lambda at: at + timedelta(seconds=1)},
    "of no outcome": {"outcome": None},
    "of no id": {"transaction_id": None},
    "of no group": {"group": None},
    "of no topic": {"topic": None},
    "of no source": {"source": None},
    "stored at no time": {"stored_at": None},
    "ended at no time": {"ended_at": None},
    "decided at no time": {"decided_at": None},
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
    # Each queue has an op that Spark can't read, which may have answered one.
    "more answered than there are answers": {"checks": 2, "answered": 2},
    "no number of checks": {"checks": None},
    "no number of answers": {"answered": None},
}


def _without_mark(headers: list[Row]) -> list[Row]:
    return [header for header in headers if header["key"] != "TRAN_MSG"]
