"""An application in a process of its own: it does each step of a local transaction when told."""

from __future__ import annotations

import ctypes
import signal
import sys

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError

from resolver.sql import TransactionLog

_PR_SET_PDEATHSIG = 1


def main(url: str) -> None:
    """Read lines of a step and a transaction id, do it, print `done` or `refused`."""
    engine, log = create_engine(url), TransactionLog()
    connection, refused = engine.connect(), ""
    for line in sys.stdin:
        step, transaction_id = line.split()
        try:
            if refused != transaction_id:  # else an exception has left its block
                do(step, transaction_id, connection, log)
        except DBAPIError:
            connection.rollback()
            refused = transaction_id
        print("refused" if refused == transaction_id else "done", flush=True)


def do(step: str, transaction_id: str, connection: Connection, log: TransactionLog) -> None:
    if step == "log":
        log.commit(connection, transaction_id)
    elif step == "order":
        connection.execute(text("INSERT INTO orders VALUES (:id)"), {"id": transaction_id})
    elif step == "commit":
        connection.commit()
    else:
        connection.rollback()


if __name__ == "__main__":
    # SIGKILL at the end of the thread that started it: a stopped process sees no end of its input.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    main(*sys.argv[1:])
