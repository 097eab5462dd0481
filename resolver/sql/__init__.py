"""A transaction log in an application's own SQL database, and listeners that answer from it.

    log = TransactionLog()
    with producer.transaction(message) as tx, engine.begin() as connection:
        log.commit(connection, tx.transaction_id)
        ...                                             # the application's own statements
    SqlTransactionListener(engine, log)                 # answers the checks

PostgreSQL, MySQL, MariaDB and SQLite; docs/sql.md explains it.
"""

from ..errors import how_to_install

try:
    import sqlalchemy as _  # noqa: F401 - its absence is told with the remedy
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"resolver.sql needs SQLAlchemy: {how_to_install('sql')}", name="sqlalchemy"
    ) from error

from .listener import AsyncSqlTransactionListener, SqlTransactionListener
from .log import SAFE_AGE, TransactionLog

__all__ = ["SAFE_AGE", "AsyncSqlTransactionListener", "SqlTransactionListener", "TransactionLog"]
