"""The result of a sent transaction, as the application gets it."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol import HalfId, TransactionStatus

__all__ = ["TransactionSendResult"]


@dataclass(frozen=True, slots=True)
class TransactionSendResult:
    """The result of a sent transaction.

    Attributes:
        transaction_id: The transaction's name.
        queue: Queue of the half.
        offset: Offset of the half in its queue.
        local_transaction_state: The state that the local transaction reported. The resolver decides
            the outcome, and the first end wins.
        topic: Real topic of the message.
        remark: Reason of an UNKNOWN, if there is one.

    Example:
        ```python
        result = producer.send_message_in_transaction(Message("orders.placed", b"..."))
        if result.local_transaction_state is TransactionStatus.UNKNOWN:
            log.info("%s will be checked: %s", result.half_offset, result.remark)
        ```
    """

    transaction_id: str
    queue: int
    offset: int
    local_transaction_state: TransactionStatus
    topic: str
    remark: str | None = None

    @property
    def half_offset(self) -> str:
        """`queue:offset`, the identity of the transaction."""
        return str(HalfId(self.queue, self.offset))
