"""What an application answers for: its local transaction, and what became of one."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .errors import ListenerError, TxResolverError
from .message import Message
from .protocol import TransactionStatus

__all__ = ["TransactionListener", "load_listener"]

_log = logging.getLogger(__name__)
_MAX_REMARK = 500
#: The two kinds of a local transaction: with one message, with all messages of a call.
FOR_ONE = "execute_local_transaction"
FOR_ALL = "execute_local_transaction_for_all"


class TransactionListener(ABC):
    """The application's side of a transaction.

    Answer `COMMIT_MESSAGE`, `ROLLBACK_MESSAGE` or `UNKNOWN`; anything else, None or an exception
    is UNKNOWN with a remark, and the resolver asks again. To a check that is no answer: only one
    that is UNKNOWN itself counts towards `transaction_check_max`, after which the message is
    dropped. Both methods are called by several threads at once.
    """

    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionStatus:
        """Run the local transaction; only `send_message_in_transaction` calls it."""
        raise NotImplementedError

    def execute_local_transaction_for_all(
        self, messages: Sequence[Message], arg: Any
    ) -> TransactionStatus:
        """Run one local transaction with many messages, for `send_messages_in_transaction`.

        What it answers holds for all of them. Write down each message's transaction id: checks
        ask for one at a time.
        """
        raise NotImplementedError

    @abstractmethod
    def check_local_transaction(self, message: Message) -> TransactionStatus:
        """Say what became of the local transaction `message.transaction_id`.

        Where there is no trace of it, write its id down as rolled back, then ROLLBACK_MESSAGE: one
        that is still running must fail on it. Where it may yet commit: UNKNOWN. Its age by
        `born_at_ms` proves neither: that clock is another machine's.
        """


class Answer(NamedTuple):
    """What a listener said; `remark` says why it is UNKNOWN where it said nothing usable."""

    state: TransactionStatus
    remark: str | None = None

    @property
    def usable(self) -> bool:
        """Whether the listener said it itself."""
        return self.remark is None


class ListenerGone(TxResolverError):
    """Nobody can be asked here any more; others of the group may know."""


def ask(method: Callable[..., Any], *args: Any) -> Answer:
    """Ask a listener; None, an exception or anything that is no status is UNKNOWN."""
    try:
        said = method(*args)
    except ListenerGone:
        raise
    except Exception as error:
        return failure_of(method, error)
    return answer_to(method, said)


def failure_of(method: Callable[..., Any], error: BaseException) -> Answer:
    """Return UNKNOWN for what a listener's method raised, and log it."""
    name = _name(method)
    _log.warning("%s failed; the state is UNKNOWN", name, exc_info=error)
    return unknown(f"{name} raised {type(error).__name__}")


def answer_to(method: Callable[..., Any], said: Any) -> Answer:
    """Return what a listener's method said; UNKNOWN if that is no status."""
    if isinstance(said, TransactionStatus):
        return Answer(said)
    if inspect.iscoroutine(said):
        said.close()
    name = _name(method)
    _log.warning("%s returned a %s; the state is UNKNOWN", name, type(said).__name__)
    return unknown(f"{name} returned {type(said).__name__}, no TransactionStatus")


def unknown(remark: str) -> Answer:
    """Return UNKNOWN with why; a remark travels in each op, so it is short."""
    return Answer(TransactionStatus.UNKNOWN, remark[:_MAX_REMARK])


def check_listener(listener: Any, may_be_async: bool = False) -> None:
    """Raise `ListenerError` unless `listener` can be asked."""
    if isinstance(listener, type):
        name = listener.__name__
        raise ListenerError(f"the listener is the class {name}; give an instance of it, {name}()")
    for name in ("check_local_transaction", FOR_ONE, FOR_ALL):
        method = getattr(listener, name, None)
        if name == "check_local_transaction" and not callable(method):
            raise ListenerError(
                f"{type(listener).__name__} has no method {name}; subclass "
                "resolver.TransactionListener"
            )
        if inspect.iscoroutinefunction(method) and not may_be_async:
            raise ListenerError(
                f"{type(listener).__name__}.{name} is async; listeners are called by threads, "
                "make it a plain method, or give it to an AsyncTransactionProducer"
            )


def local_transaction(listener: Any, name: str) -> Callable[..., Any]:
    """Return a listener's method; raises `ListenerError` where it has none of its own."""
    method = getattr(type(listener), name, None)
    if not callable(method) or method is getattr(TransactionListener, name):
        raise ListenerError(
            f"the listener is {type(listener).__name__}, which has no {name}; give one that has, "
            "or use `with producer.transaction(message)`"
        )
    bound: Callable[..., Any] = getattr(listener, name)
    return bound


def _name(method: Callable[..., Any]) -> str:
    return getattr(method, "__name__", "the listener")


def load_listener(path: str) -> Any:
    """Load `package.module:Class`, as seen from the current folder, and make an instance of it.

    What it names may also be a function that returns a listener, or a listener itself.
    Raises `ListenerError`.
    """
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise ListenerError(f"the listener is {path!r}; give package.module:Class")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
        for name in attribute.split("."):
            found = getattr(found, name)
        listener = found() if callable(found) else found
    except Exception as error:
        raise ListenerError(
            f"can't load the listener {path!r}: {type(error).__name__}: {error}. Give "
            "package.module:Class, importable from here and made without arguments"
        ) from error
    check_listener(listener)
    return listener
