"""The identity of a batch's record: it recognises the record when it is read back."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import ProtocolError
from ...protocol import Names, Outcome, decode_resolution
from ...protocol import names as n
from ...protocol.record import Headers
from .packed import DecisionRecords, Output

#: The topic, and values that no other record there has; None if a record has no such values.
Identity = tuple[object, ...]


def identity(topic: str, value: bytes | None, headers: Headers, names: Names) -> Identity | None:
    """Return the identity of a record that delivery wrote; None for any other record.

    If a header's name is repeated, the last header is ours: the application's own come before.
    """
    if topic == names.resolution:
        return _of_resolution(topic, value)
    marks = dict(headers)
    if topic == names.quarantine:
        return _of_refused(topic, headers)
    own = n.UNIQ_KEY if names.checked_group(topic) is None else n.TRANSACTION_CHECK_TIMES
    if n.HALF_OFFSET not in marks or own not in marks:
        return None
    if topic == names.parked:
        # Tell a rebuild's record from the one that the rebuild dropped: the lane keeps both.
        return topic, marks[n.HALF_OFFSET], marks[own], marks.get(n.RESOLUTION)
    return topic, marks[n.HALF_OFFSET], marks[own]


def identities(decision: DecisionRecords, names: Names) -> Iterator[Identity]:
    """Return the identities of a decision's records; for a commit also those of `given_up`."""
    for message in (decision.message, decision.resolution):
        if message is not None and (own := identity_of(message, names)) is not None:
            yield own
    if decision.half_headers is not None:
        yield from given_up(decision, names)


def given_up(decision: DecisionRecords, names: Names) -> Iterator[Identity]:
    """Return the identities of the records to be written if a commit proves undeliverable."""
    for message in (decision.message, decision.resolution):
        own = None if message is None else identity_of(message, names)
        if own is not None and own[0] == names.resolution:
            yield *own[:-1], Outcome.UNDELIVERABLE
        elif own is not None:
            yield names.discarded, *own[1:]


def identity_of(message: Output, names: Names) -> Identity | None:
    """Return the identity of a record that is to be written."""
    return identity(message.topic, message.value, list(message.headers), names)


def _of_resolution(topic: str, value: bytes | None) -> Identity | None:
    try:
        resolution = decode_resolution(value)
    except ProtocolError:
        return None
    return (
        topic,
        resolution.queue,
        resolution.offset,
        resolution.transaction_id,
        resolution.outcome,
    )


def _of_refused(topic: str, headers: Headers) -> Identity | None:
    """Return the refused record's source and element; the marks begin at the last REASON."""
    starts = [index for index, (name, _) in enumerate(headers) if name == n.REASON]
    if not starts:
        return None
    marks = dict(headers[starts[-1] :])
    return topic, marks.get(n.SOURCE), marks.get(n.ELEMENT)
