"""The listener: the application's code that runs local transactions and answers checks."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ListenerError
from ..protocol import TransactionStatus
from .message import Message

__all__ = ["TransactionListener"]

#: Methods that run a local transaction: with one message, and with all messages of a call.
FOR_ONE = "execute_local_transaction"
FOR_ALL = "execute_local_transaction_for_all"


class TransactionListener(ABC):
    """The application's side of a transaction: subclass it and give an instance to a producer.

    Each method returns a `TransactionStatus`. None, any other value or an exception becomes UNKNOWN
    with a remark, and the resolver asks again. For a check, such a result is no answer. Only an
    UNKNOWN that the listener returned counts towards `transaction_check_max`. After this number of
    checks the message is discarded. Several threads may call the methods at once.

    Raises:
        ListenerError: By the producer or agent that gets an unusable listener.

    Example:
        ```python
        class OrderListener(TransactionListener):
            def check_local_transaction(self, message):
                with engine.begin() as connection:  # log: a `resolver.sql.TransactionLog`
                    return log.settle(connection, message.transaction_id)
        ```
    """

    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionStatus:
        """Run the local transaction of one message.

        Only `send_message_in_transaction` calls it. Write down `message.transaction_id` in the same
        database transaction: a check looks it up.

        Args:
            message: The message that was sent, with its transaction id and half offset.
            arg: The caller's `arg`, passed on unchanged.

        Returns:
            The state of the local transaction.
        """
        raise NotImplementedError

    def execute_local_transaction_for_all(
        self, messages: Sequence[Message], arg: Any
    ) -> TransactionStatus:
        """Run one local transaction with many messages, for `send_messages_in_transaction`.

        Write down the transaction id of each message: a check asks about one message at a time.

        Args:
            messages: The messages that were sent, in their order.
            arg: The caller's `arg`, passed on unchanged.

        Returns:
            The state of the local transaction. It holds for all messages.
        """
        raise NotImplementedError

    @abstractmethod
    def check_local_transaction(self, message: Message) -> TransactionStatus:
        """Answer a check: report the state of the local transaction `message.transaction_id`.

        - The database has the id. Return the state that it has there.
        - The database has no trace of the id. Write it down as rolled back, commit this, then
          return ROLLBACK_MESSAGE. A local transaction that is still running must fail on this id.
        - The local transaction may yet commit. Return UNKNOWN.

        The age by `message.born_at_ms` proves neither of the last two: it comes from another
        machine's clock.

        Args:
            message: The message as it was sent. `check_times` counts the checks.

        Returns:
            The state of the local transaction.
        """


def check_listener(listener: Any, may_be_async: bool = False) -> None:
    """Raise `ListenerError` unless `listener` can be asked."""
    if isinstance(listener, type):
        name = listener.__name__
        raise ListenerError(
            f"the listener is the class {name}", remedy=f"give an instance of it, {name}()"
        )
    for name in ("check_local_transaction", FOR_ONE, FOR_ALL):
        method = getattr(listener, name, None)
        if name == "check_local_transaction" and not callable(method):
            raise ListenerError(
                f"{type(listener).__name__} has no method {name}",
                remedy="subclass resolver.TransactionListener",
            )
        if inspect.iscoroutinefunction(method) and not may_be_async:
            raise ListenerError(
                f"{type(listener).__name__}.{name} is async, and listeners are called by threads",
                remedy="make it a plain method, or give it to an AsyncTransactionProducer",
            )


def local_transaction_method(listener: Any, name: str) -> Callable[..., Any]:
    """Return a listener's method for local transactions.

    Raises `ListenerError` if its class defines none.
    """
    method = getattr(type(listener), name, None)
    if not callable(method) or method is getattr(TransactionListener, name):
        raise ListenerError(
            f"the listener is {type(listener).__name__}, which has no {name}",
            remedy="give one that has, or use `with producer.transaction(message)`",
        )
    bound: Callable[..., Any] = getattr(listener, name)
    return bound
