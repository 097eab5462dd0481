"""What ended the land query, in words that an operator can act on."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.errors import StreamingQueryException

from pipelines.failure import query_failed
from resolver.errors import ResolverError

# Spark's Kafka source says it in all that `failOnDataLoss` is about; what was lost stands behind.
_LOST = re.compile(r"Some data may have been lost.*?Reason:\s*(?P<what>[^\n]*)", re.DOTALL)


def land_failure(
    failure: StreamingQueryException, checkpoint: Path | str, log: str = "Spark's log"
) -> ResolverError:
    """Return the error to raise for a query that failed; `log` is where to read on."""
    lost = _LOST.search(str(failure))
    if lost is None:
        return query_failed("land", failure, log)
    what = lost["what"].partition(" SQLSTATE")[0].rstrip(". ")
    return ResolverError(
        "land stopped, as a topic or records that it had not read are gone from Kafka "
        f"({what}); if they may be missing in the tables, as after deleting a retired group's "
        f"check topic, remove land's checkpoint, the folder {checkpoint}, and start again: the "
        "tables keep what landed, and land goes on after it"
    )
