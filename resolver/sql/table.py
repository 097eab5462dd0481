"""The table of a transaction log, and a row of it."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Index, MetaData, String, Table
from sqlalchemy.dialects.mysql import VARBINARY

from ..errors import TransactionLogError
from ..protocol.names import MAX_TRANSACTION_ID_LENGTH
from .databases import Database

# Most characters are 48: PostgreSQL's longest name has 63, and the index has 11 more than the
# table.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")
_UTF8_BYTES = 4


def log_table(name: str, schema: str | None, metadata: MetaData) -> Table:
    """Return the table's definition; raises `TransactionLogError` for an illegal name."""
    for identifier in (name, schema):
        if identifier is not None and not _NAME.fullmatch(identifier):
            raise TransactionLogError(
                f"{identifier!r} can't name a table or a schema here",
                remedy="give 1 to 48 of a-z A-Z 0-9 and _, not beginning with a digit",
            )
    return Table(
        name,
        metadata,
        Column("transaction_id", _exact(), primary_key=True),
        Column("committed", Boolean, nullable=False),
        Column("written_at", BigInteger, nullable=False),
        Index(f"{name}_written_at", "written_at"),
        schema=schema,
        mysql_engine="InnoDB",  # other engines have no transactions
        mariadb_engine="InnoDB",
    )


def row_of(database: Database, transaction_id: str, committed: bool) -> dict[str, Any]:
    """Return the values of a row; raises `TransactionLogError` for an illegal transaction id."""
    longest = MAX_TRANSACTION_ID_LENGTH
    if not isinstance(transaction_id, str) or not 1 <= len(transaction_id) <= longest:
        raise TransactionLogError(
            f"the transaction id is {transaction_id!r:.200}",
            remedy=f"give `tx.transaction_id` or `message.transaction_id`, 1 to {longest} "
            "characters",
        )
    return {
        "transaction_id": database.stored_id(transaction_id),
        "committed": committed,
        "written_at": database.now,
    }


def _exact() -> Any:
    # Store bytes in MySQL. Texts of PostgreSQL and SQLite are compared byte by byte. Each collation
    # of MySQL passes over case or trailing spaces, or is known to MySQL or to MariaDB alone.
    longest = MAX_TRANSACTION_ID_LENGTH
    return (
        String(longest)
        .with_variant(String(longest, collation="C"), "postgresql")
        .with_variant(VARBINARY(longest * _UTF8_BYTES), "mysql", "mariadb")
    )
