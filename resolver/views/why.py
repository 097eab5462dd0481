"""Why a transaction has its status, in sentences, with the offsets that prove it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

Row = Mapping[str, Any]

_DONE = {
    "COMMIT": "committed",
    "ROLLBACK": "rolled back",
    "DISCARD": "discarded",
    "UNDELIVERABLE": "undeliverable",
}
_STATES = {
    "COMMIT_MESSAGE": "COMMIT",
    "ROLLBACK_MESSAGE": "ROLLBACK",
    "UNKNOWN": "UNKNOWN",
}


def sentences(events: Sequence[Row], pending: Row | None) -> Iterator[str]:
    """Yield the status first; `pending` is the row of a transaction that has not ended."""
    outcomes = [event for event in events if event["event"] == "outcome"]
    if outcomes:
        yield from _ended(events, outcomes[0])
    elif pending is not None:
        yield from _open(events, pending)
    elif any(event["event"] == "refused" and event["op_offset"] is None for event in events):
        yield "refused: this half is no transaction."
    else:
        yield "no transaction: its half is refused, and the refusal has not landed yet."
    yield from _refusals(events)
    yield from _duplicates(events, outcomes)


def _ended(events: Sequence[Row], outcome: Row) -> Iterator[str]:
    done = _DONE[outcome["word"]]
    if outcome["word"] == "DISCARD":
        reasons = [event for event in events if event["event"] == "discarded"]
        reason = f"{reasons[0]['word']} ({place_of(reasons[0])})" if reasons else "a limit"
        yield f"{done}: given up at {_time(outcome['at'])} by {reason}, {_checks(outcome)}."
    else:
        yield f"{done}: the first valid end was {_first_end(events, outcome)}."
        yield from _waited(events, outcome)
    if outcome["word"] == "UNDELIVERABLE":
        for event in events:
            if event["event"] == "discarded":
                yield f"The message was not delivered: {event['detail']} ({place_of(event)})."
    for event in events:
        if event["event"] == "parked":
            yield f"It waited for topic {event['detail']} in the lane ({place_of(event)})."
    yield f"The outcome was decided at {_time(outcome['at'])} ({place_of(outcome)})."


def _first_end(events: Sequence[Row], outcome: Row) -> str:
    for event in events:
        if event["event"] in _ENDS and event["op_offset"] == outcome["op_offset"]:
            return f"{_end_in_words(event, events)} at {_time(event['at'])} ({place_of(event)})"
    return f"op {outcome['op_offset']}, which has not landed"


def _waited(events: Sequence[Row], outcome: Row) -> Iterator[str]:
    """Yield the revocation for which the first end waited, if it did."""
    revoked = _revoked(events)
    for end in events:
        is_first = end["event"] in _ENDS and end["op_offset"] == outcome["op_offset"]
        if is_first and _waits(end) and revoked and revoked["op_offset"] > end["op_offset"]:
            yield f"It waited until {_revocation(revoked)}."


def _waits(end: Row) -> bool:
    """Whether an end waits for as long as its producer may deliver the message itself."""
    is_rollback = end["event"] == "end" and end["word"] == "ROLLBACK_MESSAGE"
    return end["event"] != "delivered" and not is_rollback


def _revoked(events: Sequence[Row]) -> Row | None:
    """Return the first event after which the producer delivers the message no more."""
    revocations = [event for event in events if event["event"] == "revoked"]
    return min(revocations, key=lambda event: int(event["op_offset"]), default=None)


def _revocation(revoked: Row) -> str:
    by_producer = revoked["word"] == "UNKNOWN"
    what = "its producer gave the fast commit up" if by_producer else "the fast id was revoked"
    return f"{what} at {_time(revoked['at'])} ({place_of(revoked)})"


def _end_in_words(end: Row, events: Sequence[Row]) -> str:
    state = _STATES.get(end["word"], end["word"])
    if end["event"] == "operator":
        return f"the {state} of operator {end['detail']}"
    if end["event"] == "answer":
        before = [event["checks"] for event in events if _is_check_before(event, end)]
        return f"the {state} that answers check {max(before)}" if before else f"an answer, {state}"
    itself = ", which delivered the message itself," if end["event"] == "delivered" else ""
    return f"the application's {state}{itself}"


_ENDS = ("end", "delivered", "answer", "operator")


def _is_check_before(event: Row, end: Row) -> bool:
    return bool(event["event"] == "check" and event["at"] <= end["at"])


def _open(events: Sequence[Row], pending: Row) -> Iterator[str]:
    if pending["status"] == "PARKED":
        yield (
            f"parked: committed, and waiting for topic {pending['topic']} to take records again "
            f"since {_time(pending['parked_at'])}."
        )
    elif ends := _undecided(events):
        end = ends[0]
        words = _end_in_words(end, events)
        yield f"pending: {words} at {_time(end['at'])} has landed ({place_of(end)})."
        if _may_be_delivered(events, pending) and _waits(end):
            yield f"It waits until fast id {pending['fast_id']} is revoked."
        else:
            yield "Its outcome has not: the resolver is behind or away, or land is."
    else:
        yield f"pending: no valid end has landed since {_time(pending['stored_at'])}."
        yield _asked(pending)
        if _may_be_delivered(events, pending):
            condition = f"once fast id {pending['fast_id']} is revoked"
        else:
            condition = "or earlier if the group is back"
        due = _time(pending["next_check_at"])
        yield f"The next check is due at {due}, by the settings, {condition}."
    for event in events:
        if event["event"] == "parked":
            yield f"It was put into the lane at {_time(event['at'])} ({place_of(event)})."


def _may_be_delivered(events: Sequence[Row], pending: Row) -> bool:
    """Whether the producer may deliver the message itself."""
    return pending["fast_id"] is not None and _revoked(events) is None


def _undecided(events: Sequence[Row]) -> list[Row]:
    """Return the ends that are not in quarantine, of a transaction without an outcome."""
    refused = {event["op_offset"] for event in events if event["event"] == "refused"}
    return [
        event
        for event in events
        if event["event"] in _ENDS
        and _STATES.get(event["word"]) in ("COMMIT", "ROLLBACK")
        and event["op_offset"] not in refused
    ]


def _asked(pending: Row) -> str:
    group = pending["group"]
    if not pending["checks"]:
        return f"Group {group} was not asked yet."
    times = "once, at" if pending["checks"] == 1 else f"{pending['checks']} times, last at"
    asked = f"Group {group} was asked {times}"
    answer, last = pending["last_answer_at"], pending["last_check_at"]
    answered = answer is not None and answer >= last
    end = f"answered at {_time(answer)}" if answered else "has not answered since"
    return f"{asked} {_time(last)}, and {end}."


def _refusals(events: Sequence[Row]) -> Iterator[str]:
    for event in events:
        if event["event"] == "refused":
            what = "The half" if event["op_offset"] is None else f"The op {event['op_offset']}"
            reason = f"{event['word']} ({place_of(event)})"
            yield f"{what} is in quarantine as {reason}: {event['detail']}."


def _duplicates(events: Sequence[Row], outcomes: Sequence[Row]) -> Iterator[str]:
    if not outcomes or outcomes[0]["op_offset"] is None:
        return
    first, word = outcomes[0]["op_offset"], outcomes[0]["word"]
    ended = "COMMIT" if word == "UNDELIVERABLE" else word
    refused = {event["op_offset"] for event in events if event["event"] == "refused"}
    for event in events:
        is_later = event["event"] in _ENDS and event["op_offset"] > first
        is_same = _STATES.get(event["word"]) == ended
        if is_later and is_same and event["op_offset"] not in refused:
            yield f"The same end came again at {_time(event['at'])} ({place_of(event)})."


def _checks(outcome: Row) -> str:
    return f"after {outcome['checks']} check{'' if outcome['checks'] == 1 else 's'}"


def place_of(event: Row) -> str:
    """Return the place of an event's record: `topic:partition:offset`."""
    return f"{event['source_topic']}:{event['source_partition']}:{event['source_offset']}"


def _time(time: datetime | None) -> str:
    if time is None:
        return "an unknown time"
    return time.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
