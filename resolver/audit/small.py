"""A small ledger: what Spark does for large ones would take longer than the audit itself."""

from __future__ import annotations

from pathlib import Path

#: Bytes on disk up to which a ledger is small: about 20,000 transactions.
SMALL_BYTES = 8 << 20
#: Options for a small ledger. The rules are large conditions. For some thousand rows, generating
#: code and optimising the plan would take longer than evaluating the rules.
OPTIONS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.optimizer.maxIterations": "1",
}


def is_small(folder: str) -> bool:
    """Whether a folder has a small ledger; a folder that is not on this machine counts as large."""
    tables = Path(folder.removeprefix("file://"))
    try:
        sizes = [file.stat().st_size for file in tables.rglob("*.parquet")]
    except OSError:  # a file that was removed meanwhile
        return False
    return tables.is_dir() and sum(sizes) <= SMALL_BYTES
