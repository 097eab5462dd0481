"""Reading headers, numbers and times out of records: an unreadable value is null.

Spark runs in ANSI mode, where a bad cast ends the query. So nothing here may raise on any bytes.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_LAST_MILLISECOND = 253_402_300_799_999  # end of the year 9999, the last that Python can show


def headers() -> Column:
    """Return the record's headers."""
    return F.col("record.headers")


def text(value: Column) -> Column:
    """Return bytes as text; null if they are not UTF-8, which Parquet's readers would choke on."""
    return F.try_validate_utf8(value.cast("string"))


def header_once(name: str) -> Column:
    """Return a header's value as text, if the record has the header exactly once; else null."""
    matching = F.filter(headers(), lambda header: name_of(header) == F.lit(name))
    return F.when(F.size(matching) == 1, text(F.get(matching, F.lit(0))["value"]))


def name_of(header: Column) -> Column:
    """Return a header's name as the resolver reads it: librdkafka ends it at a NUL."""
    return F.substring_index(header["key"], "\0", 1)


def header_last(name: str, among: Column) -> Column:
    """Return the value of a header's last occurrence as text: the resolver wrote the last."""
    matching = F.filter(among, lambda header: header["key"] == name)
    return text(F.get(matching, F.size(matching) - 1)["value"])


def whole(written: Column) -> Column:
    """Return decimal digits as a number; null for anything else, signs and blanks included."""
    return F.when(written.rlike(r"\A[0-9]{1,18}\z"), written.try_cast("bigint"))


def whole_int(written: Column) -> Column:
    """Return decimal digits as a 32-bit number; null if it is larger."""
    return whole(written).try_cast("int")


def time_of(milliseconds: Column) -> Column:
    """Return milliseconds since 1970 as a timestamp; null outside the years 1970 to 9999."""
    legal = milliseconds.between(0, _LAST_MILLISECOND)
    return F.when(legal, F.timestamp_millis(milliseconds))


def queue_of(half_offset: Column) -> Column:
    """Return the queue of `queue:offset`."""
    return whole_int(F.split_part(half_offset, F.lit(":"), F.lit(1)))


def offset_of(half_offset: Column) -> Column:
    """Return the offset of `queue:offset`."""
    return whole(F.split_part(half_offset, F.lit(":"), F.lit(2)))
