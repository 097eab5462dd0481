"""The errors of a land query that ended, in words that an operator can act on."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession

from ..errors import ResolverError
from ..spark.failure import in_short, query_failed
from .damaged import damaged_tables

# Spark's Kafka source says this in all errors of `failOnDataLoss`; the loss is named after it.
_LOST = re.compile(r"Some data may have been lost.*?Reason:\s*(?P<what>[^\n]*)", re.DOTALL)


def land_failure(
    failure: Exception, checkpoint: Path | str, log: str = "Spark's log"
) -> ResolverError:
    """Return the error to raise for a query that failed; `log` names the place to read on."""
    lost = _LOST.search(str(failure))
    if lost is None:
        return query_failed("land", failure, log, _remedy(checkpoint))
    what = lost["what"].partition(" SQLSTATE")[0].rstrip(". ")
    return ResolverError(
        f"land stopped, as a topic or records that it had not read are gone from Kafka ({what})",
        remedy="if they may be missing in the tables, as after deleting a retired group's check "
        f"topic, remove land's checkpoint, the folder {checkpoint}, and start again: the tables "
        "keep what landed, and land goes on after it",
    )


def start_failure(
    spark: SparkSession, failure: Exception, tables: Path | str, checkpoint: Path | str
) -> ResolverError:
    """Return the error to raise if the query can't be started; it names damaged tables."""
    damaged = damaged_tables(spark, failure, tables)
    if not damaged:
        return land_failure(failure, checkpoint)
    folders = ", ".join(damaged)
    return ResolverError(
        f"these tables can't be read: {folders} ({in_short(str(failure))})",
        remedy="if their files are whole, see that they may be read, and start again; if they "
        f"can't be put back, remove the folders {folders} and {checkpoint} and start again: what "
        "Kafka still has of them lands again",
    )


def _remedy(checkpoint: Path | str) -> str:
    return (
        "If it does so again, files of land's checkpoint may be damaged: remove the folder "
        f"{checkpoint} and start again: the tables keep what landed, and land goes on after it"
    )
