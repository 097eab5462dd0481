"""Halves, as the protocol reads them: their fields, and whether they are well-formed."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..ledger import HEADERS
from ..ledger.reading import name_of
from ..protocol import names as n

_LEGAL = r"\A[a-zA-Z0-9._-]+\z"
_WHOLE = r"\A[0-9]{1,18}\z"
#: Java's replacement in a header's name that is not UTF-8; such a name makes a record malformed. A
#: name may also contain this character itself: then the audit can't tell the two apart.
_NOT_UTF8 = "\ufffd"


def half_events(
    halves: DataFrame, revoked: DataFrame, prefix: str, with_content: bool
) -> DataFrame:
    """Return queue, offset and struct `half`; `with_content` adds a digest to compare its bits.

    `revoked` is the result of `ops.revocations`.
    """
    fields = [
        F.col("transaction_id").alias("id"),
        F.col("group"),
        F.col("topic"),
        F.unix_millis("stored_at").alias("stored_ms"),
        F.coalesce("immunity_seconds", F.lit(0)).alias("immunity_seconds"),
        (~F.coalesce(_well_formed(prefix) | is_erased(), F.lit(False))).alias("malformed"),
        has_doubtful_name().alias("doubtful"),
        is_erased().alias("erased"),
    ]
    bits = unless_erased(content(_delivered_headers())) if with_content else F.lit(None)
    fields += [F.col("real_qid"), bits.cast("string").alias("content")]
    fields += [F.col("fast_id"), F.col("revoked")]
    halves = halves.join(F.broadcast(revoked), ["queue", "fast_id"], "left")
    return read(halves).select("queue", "offset", F.struct(*fields).alias("half"))


def content(headers: Column, key: Column | None = None) -> Column:
    """Return a digest of a message's key, value and headers; null and empty differ."""
    key = F.col("key") if key is None else key
    whole = F.struct(key.alias("key"), F.col("value"), headers.alias("headers"))
    return F.sha2(F.to_json(whole, {"ignoreNullFields": "false"}), 256)


def is_erased() -> Column:
    """Whether an operator has erased the `read` row's message: only a transaction's is.

    No record in Kafka looks like that: without its headers it would have no transaction id.
    """
    names = F.transform("headers", lambda header: header["key"])
    is_marked = F.coalesce(F.get(names, F.lit(0)) == n.ERASED, F.lit(False))
    return F.col("transaction_id").isNotNull() & is_marked & ~F.array_contains(names, n.UNIQ_KEY)


def unless_erased(bits: Column) -> Column:
    """Return the digest of a row's message; null, which equals nothing, if it was erased."""
    return F.when(~is_erased(), bits)


def read(rows: DataFrame) -> DataFrame:
    """Return rows with their headers as the resolver reads them, for the functions below.

    Do so once for each row: otherwise each function would read them again.
    """
    headers = F.transform(
        F.coalesce("headers", F.array().cast(HEADERS)),
        lambda header: F.struct(name_of(header).alias("key"), header["value"].alias("value")),
    )
    return rows.withColumn("headers", headers)


def has_doubtful_name() -> Column:
    """Whether the name of one of a `read` row's headers may not be UTF-8."""
    return F.exists("headers", lambda header: header["key"].contains(_NOT_UTF8))


def _delivered_headers() -> Column:
    """Return the headers of a commit: the user's headers, and those that name its origin."""
    users = F.filter("headers", lambda header: ~header["key"].isin(*sorted(n.HALF_HEADERS)))
    added = {
        n.UNIQ_KEY: F.col("transaction_id"),
        n.PGROUP: F.col("group"),
        n.BORN_TIMESTAMP: F.get(_values(n.BORN_TIMESTAMP), F.lit(0)),
        n.HALF_OFFSET: F.concat_ws(":", "queue", "offset"),
    }
    pairs = [
        F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
        for name, value in added.items()
    ]
    return F.concat(users, F.array(*pairs))


def _well_formed(prefix: str) -> Column:
    """Whether a half is well-formed; null means no, too.

    A column is null if the record does not have its header exactly once. The column `born_at` is
    not asked: it is null for legal values that don't fit.
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
        & ((F.size(_values(n.FAST)) == 0) | _legal_fast_id(prefix))
        & ~F.exists("headers", lambda header: header["key"].isin(*sorted(n.OUTPUT_HEADERS)))
    )


def _legal(name: str, longest: int) -> Column:
    return F.col(name).rlike(_LEGAL) & (F.length(name) <= longest)


def _legal_fast_id(prefix: str) -> Column:
    beginning = F.concat(F.lit(f"{prefix}fast:"), F.col("group"), F.lit(":"))
    name = F.substr("fast_id", F.length(beginning) + 1)
    is_legal = name.rlike(_LEGAL) & (F.length(name) <= n.MAX_FAST_NAME_LENGTH)
    return F.startswith("fast_id", beginning) & is_legal


def _one_number(name: str) -> Column:
    values = _values(name)
    written = F.try_validate_utf8(F.get(values, F.lit(0)).cast("string"))
    return (F.size(values) == 1) & written.rlike(_WHOLE)


def _values(name: str) -> Column:
    matching = F.filter("headers", lambda header: header["key"] == name)
    return F.transform(matching, lambda header: header["value"])
