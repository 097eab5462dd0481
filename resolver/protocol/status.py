"""The state of a local transaction: applications report it, and ops carry it."""

from __future__ import annotations

from enum import Enum


class TransactionStatus(str, Enum):
    """The state of a local transaction, as an application or a listener reports it.

    Attributes:
        COMMIT_MESSAGE: The local transaction has committed: make the message visible.
        ROLLBACK_MESSAGE: The local transaction has not committed and never will: drop the message.
        UNKNOWN: Not known yet: the resolver asks again by a check.

    Example:
        ```python
        def execute_local_transaction(self, message, arg):
            if place_order(arg, message.transaction_id):  # commits in the database
                return TransactionStatus.COMMIT_MESSAGE
            return TransactionStatus.ROLLBACK_MESSAGE
        ```
    """

    COMMIT_MESSAGE = "COMMIT_MESSAGE"
    ROLLBACK_MESSAGE = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOWN"
