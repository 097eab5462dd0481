"""End hooks: functions of the application that see each end, for metrics and audit logs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..protocol import HalfId, TransactionStatus
from .message import Message
from .reported_state import ReportedState

__all__ = ["EndHook", "EndHooks", "TransactionEnd"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """An end of a transaction, as end hooks see it.

    Attributes:
        group: Producer group.
        message: The message, with its transaction id.
        transaction_id: The transaction's name.
        queue: Queue of the half.
        offset: Offset of the half in its queue.
        state: The state that the op carries.
        from_check: True for the agent's answer to a check, False for the application's own end.
        remark: Reason of an UNKNOWN, if there is one.

    A hook is called after the op was handed over, by the thread that ended the transaction. A hook
    that fails is logged: it can't change the op.

    Example:
        ```python
        hooks = [lambda end: ENDS.labels(end.state.value, end.from_check).inc()]
        producer = TransactionProducer("orders", servers, listener, end_hooks=hooks)
        ```
    """

    group: str
    message: Message
    transaction_id: str
    queue: int
    offset: int
    state: TransactionStatus
    from_check: bool
    remark: str | None = None


#: Function that the ending thread calls after it has handed the op over.
EndHook = Callable[[TransactionEnd], None]


class EndHooks:
    """Shows each end of a group to the group's hooks."""

    def __init__(self, group: str, hooks: Iterable[EndHook]) -> None:
        self._group = group
        self._hooks = tuple(hooks)

    def show(
        self, message: Message, half_id: HalfId, reported: ReportedState, from_check: bool = False
    ) -> None:
        """Show the hooks an end whose op was handed over."""
        if self._hooks:
            transaction_id = message.transaction_id
            end = TransactionEnd(
                self._group, message, transaction_id, *half_id, reported.state, from_check,
                reported.remark,
            )  # fmt: skip
            self._show(end)

    def _show(self, end: TransactionEnd) -> None:
        for hook in self._hooks:
            try:
                hook(end)
            except BaseException as error:  # a hook only watches; the op is sent already
                _log.exception("an end hook of group %s failed", self._group)
                if not end.from_check and not isinstance(error, Exception):
                    raise  # Ctrl-C in the application's thread; the agent's threads go on
