"""Halves, as the protocol reads them: what they ask for, and whether they are well-formed."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..protocol import names as n
from ..tables import HEADERS
from ..tables.reading import name_of

_LEGAL = r"\A[a-zA-Z0-9._-]+\z"
_WHOLE = r"\A[0-9]{1,18}\z"
#: What Java makes of a header's name that is not UTF-8, by which a record is malformed. A name may
#: also have it by itself: then it can't be told here.
_NOT_UTF8 = "\ufffd"


def half_events(halves: DataFrame, prefix: str, with_content: bool) -> DataFrame:
    """Return queue, offset, and struct `half`; with its `content` for a comparison bit for bit."""
    fields = [
        F.col("transaction_id").alias("id"),
        F.col("group"),
        F.col("topic"),
        F.unix_millis("stored_at").alias("stored_ms"),
        F.coalesce("immunity_seconds", F.lit(0)).alias("immunity_seconds"),
        (~F.coalesce(_well_formed(prefix), F.lit(False))).alias("malformed"),
        has_doubtful_name().alias("doubtful"),
    ]
    bits = content(_delivered_headers()) if with_content else F.lit(None)
    fields += [F.col("real_qid"), bits.cast("string").alias("content")]
    return halves.select("queue", "offset", F.struct(*fields).alias("half"))


def content(headers: Column, key: Column | None = None) -> Column:
    """Return a digest of a message: its key, value and headers, null being unlike empty."""
    key = F.col("key") if key is None else key
    whole = F.struct(key.alias("key"), F.col("value"), headers.alias("headers"))
    return F.sha2(F.to_json(whole, {"ignoreNullFields": "false"}), 256)


def headers_read() -> Column:
    """Return a row's headers as the resolver reads them."""
    return F.transform(
        F.coalesce("headers", F.array().cast(HEADERS)),
        lambda header: F.struct(name_of(header).alias("key"), header["value"].alias("value")),
    )


def has_doubtful_name() -> Column:
    """Whether the name of one of a row's headers may not be UTF-8."""
    return F.exists(headers_read(), lambda header: header["key"].contains(_NOT_UTF8))


def _delivered_headers() -> Column:
    """Return the headers that a commit has: the user's, and where it is from."""
    users = F.filter(headers_read(), lambda header: ~header["key"].isin(*sorted(n.HALF_HEADERS)))
    added = {
        n.UNIQ_KEY: F.col("transaction_id"),
        n.PGROUP: F.col("group"),
        n.HALF_OFFSET: F.concat_ws(":", "queue", "offset"),
    }
    pairs = [
        F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
        for name, value in added.items()
    ]
    return F.concat(users, F.array(*pairs))


def _well_formed(prefix: str) -> Column:
    """Whether it is; null too means no. The columns are null for a header that is not once there.

    `born_at` and `real_qid` are not asked: they are null for legal values that don't fit.
    """
    return (
        (F.size(_values(n.TRAN_MSG)) == 1)
        & (F.get(_values(n.TRAN_MSG), F.lit(0)) == F.lit(b"true"))
        & F.length("transaction_id").between(1, n.MAX_TRANSACTION_ID_LENGTH)
        & _legal("group", n.MAX_GROUP_LENGTH)
        & _legal("topic", n.MAX_TOPIC_LENGTH)
        & ~F.col("topic").isin(".", "..")
        & ~F.col("topic").startswith(prefix)
        & ~F.col("group").startswith(prefix)
        & _one_number(n.BORN_TIMESTAMP)
        & ((F.size(_values(n.REAL_QID)) == 0) | F.col("real_qid").isNotNull())
        & (F.size(_values(n.CHECK_IMMUNITY_TIME_IN_SECONDS)) <= 1)
        & ~F.exists(headers_read(), lambda header: header["key"].isin(*sorted(n.OUTPUT_HEADERS)))
    )


def _legal(name: str, longest: int) -> Column:
    return F.col(name).rlike(_LEGAL) & (F.length(name) <= longest)


def _one_number(name: str) -> Column:
    values = _values(name)
    written = F.try_validate_utf8(F.get(values, F.lit(0)).cast("string"))
    return (F.size(values) == 1) & written.rlike(_WHOLE)


def _values(name: str) -> Column:
    found = F.filter(headers_read(), lambda header: header["key"] == name)
    return F.transform(found, lambda header: header["value"])
