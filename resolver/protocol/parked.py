"""Records of the lane: parked messages, which wait for their topic, and their releases."""

from __future__ import annotations

from typing import NamedTuple

import orjson

from ..errors import ProtocolError
from . import names as n
from .record import Headers, Record, StoredRecord, short
from .resolution import Resolution, decode_resolution


class Release(NamedTuple):
    """The end of waiting for the lane's records before the offset `upto`.

    With a `topic` it is for the records of this topic: they were delivered together with the
    release. With None it is for all records, as when a rebuild decides their halves again.
    """

    topic: str | None
    upto: int


#: The release of no record: it marks the lane's end before the lane is read.
LANE_END = Release(None, 0)


def parked_record(
    resolution: Resolution, key: bytes | None, value: bytes | None, half: Headers, names: n.Names
) -> Record:
    """Return the lane's record of a message: its half, bit for bit, and its resolution."""
    marks: Headers = [
        (n.HALF_OFFSET, f"{resolution.queue}:{resolution.offset}".encode()),
        (n.RESOLUTION, orjson.dumps(resolution._asdict())),
    ]
    return Record(names.parked, key, value, [*half, *marks], 0)


def release_record(release: Release, names: n.Names) -> Record:
    """Return the lane's record of a release."""
    return Record(names.parked, None, orjson.dumps(release._asdict()), [(n.TAGS, n.RELEASE_TAG)], 0)


def decode_parked(record: StoredRecord) -> tuple[Resolution, Headers] | Release:
    """Decode a record of the lane: a resolution with its half's headers, or a release.

    Only this system writes the topic: `ProtocolError` says that another client did.
    """
    headers = record.headers or []
    if headers == [(n.TAGS, n.RELEASE_TAG)]:
        return _decode_release(record.value)
    if [name for name, _ in headers[-2:]] != [n.HALF_OFFSET, n.RESOLUTION]:
        raise ProtocolError(f"the record at {record.offset} is no parked message")
    return decode_resolution(headers[-1][1]), headers[:-2]


def _decode_release(value: bytes | None) -> Release:
    try:
        fields = orjson.loads(value or b"")
        topic, upto = fields["topic"], fields["upto"]
        if not isinstance(upto, int) or not isinstance(topic, (str, type(None))):
            raise TypeError(f"topic {topic!r}, upto {upto!r}")
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"{short(value)} is no release: {short(str(error))}") from error
    return Release(topic, upto)
