"""The lane's records: a half with its outcome, and a release, as they were written."""

from __future__ import annotations

import pytest
from hypothesis import given

from resolver.errors import ProtocolError
from resolver.protocol import (
    Half,
    Headers,
    Outcome,
    Record,
    Release,
    Resolution,
    Source,
    StoredHalf,
    StoredRecord,
    decode_half,
    decode_parked,
    parked_record,
    release_record,
)

from .samples import NAMES, a_half, halves, stored


def commit_of(at: StoredHalf) -> Resolution:
    return Resolution(
        transaction_id=at.half.transaction_id, queue=at.queue, offset=at.offset,
        outcome=Outcome.COMMIT, source=Source.END, group=at.half.group, topic=at.half.topic,
        op_offset=3, checks=1, answered=1, born_at=7, stored_at=at.stored_at_ms, ended_at=8,
        decided_at=9, batch_id=10, query_id="query",
    )  # fmt: skip


def parked(half: Half) -> Record:
    at = stored(half)
    return parked_record(commit_of(at), half.key, half.body, at.all_headers, NAMES)


def as_stored(record: Record, headers: Headers | None = None) -> StoredRecord:
    found = record.headers if headers is None else headers
    return StoredRecord(5, 6, record.key, record.value, found)


@given(halves)
def test_a_parked_message_is_its_half_and_its_outcome(half: Half) -> None:
    record = parked(half)
    found = decode_parked(as_stored(record))
    assert not isinstance(found, Release)
    outcome, headers = found
    assert outcome == commit_of(stored(half))
    assert decode_half(record.key, record.value, headers, NAMES.prefix) == half
    assert (record.topic, record.partition) == ("tx.parked", 0)


def test_a_users_header_may_be_called_like_the_lanes() -> None:
    half = a_half(headers=[("RESOLUTION", b"mine"), ("RESOLUTION", None)])
    record = parked(half)
    found = decode_parked(as_stored(record))
    assert not isinstance(found, Release)
    assert decode_half(record.key, record.value, found[1], NAMES.prefix) == half


@pytest.mark.parametrize("topic", ["orders.placed", None])
def test_a_release_says_of_what_and_up_to_where(topic: str | None) -> None:
    release = Release(topic, 17)
    assert decode_parked(as_stored(release_record(release, NAMES))) == release


@pytest.mark.parametrize("value", [None, b"", b"{}", b"[]", b'{"topic":1,"upto":2}', b'{"upto":2}'])
def test_what_is_no_release_is_refused(value: bytes | None) -> None:
    record = release_record(Release(None, 1), NAMES)._replace(value=value)
    with pytest.raises(ProtocolError, match="is no release"):
        decode_parked(as_stored(record))


def test_what_is_no_parked_message_is_refused() -> None:
    with pytest.raises(ProtocolError, match="at 5 is no parked message"):
        decode_parked(as_stored(parked(a_half()), headers=[("a", b"1")]))
