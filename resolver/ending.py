"""Ending transactions: the op is sent, hooks see it; the application's ends and the agent's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .listener import Answer
from .message import Message
from .ops import OpSender, PackKey
from .ops.pack import OnStored
from .protocol import TransactionStatus

__all__ = ["EndHook", "TransactionEnd"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """An end as hooks see it; `from_check` tells the agent's from the application's own."""

    group: str
    message: Message
    transaction_id: str
    queue: int
    offset: int
    state: TransactionStatus
    from_check: bool
    remark: str | None = None


#: Called after the op was handed over, by the thread that ended the transaction.
EndHook = Callable[[TransactionEnd], None]


class Ending:
    """Sends the ends of one group and shows them to the hooks."""

    def __init__(self, ops: OpSender, group: str, hooks: Iterable[EndHook] = ()) -> None:
        self._ops = ops
        self._group = group
        self._hooks = tuple(hooks)

    def end(
        self,
        message: Message,
        queue: int,
        offset: int,
        answer: Answer,
        from_check: bool = False,
        on_stored: OnStored | None = None,
    ) -> None:
        """Send the op without waiting for it, and show it to the hooks."""
        self.send(message, queue, offset, answer, from_check, on_stored)
        if self._hooks:
            transaction_id = message.transaction_id
            end = TransactionEnd(
                self._group, message, transaction_id, queue, offset, answer.state, from_check,
                answer.remark,
            )  # fmt: skip
            self._show(end)

    def send(
        self,
        message: Message,
        queue: int,
        offset: int,
        answer: Answer,
        from_check: bool = False,
        on_stored: OnStored | None = None,
    ) -> None:
        """Send the op without showing it: hooks have seen it."""
        # A listener that failed has not answered: else checks would be used up, and the message
        # dropped, for no more than a database that is away.
        answers = from_check and answer.usable
        key = PackKey(queue, answer.state, answers, answer.remark)
        self._ops.send(key, offset, message.transaction_id, on_stored)

    def _show(self, end: TransactionEnd) -> None:
        for hook in self._hooks:
            try:
                hook(end)
            except BaseException as error:  # a hook looks on; it can't change what was sent
                _log.exception("an end hook of group %s failed", self._group)
                if not end.from_check and not isinstance(error, Exception):
                    raise  # Ctrl-C in a thread of the application's; the agent's have to go on
