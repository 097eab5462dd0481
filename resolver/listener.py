"""What an application answers for: its local transaction, and what became of one."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from .errors import ListenerError
from .message import Message
from .protocol import TransactionStatus

__all__ = ["TransactionListener", "load_listener"]

_log = logging.getLogger(__name__)
_MAX_REMARK = 500


class TransactionListener(ABC):
    """The application's side of a transaction.

    Answer `COMMIT_MESSAGE`, `ROLLBACK_MESSAGE` or `UNKNOWN`; anything else, None or an exception
    is UNKNOWN with a remark, and the resolver asks again. Both methods are called by several
    threads at once.
    """

    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionStatus:
        """Run the local transaction; only `send_message_in_transaction` calls it."""
        raise NotImplementedError

    @abstractmethod
    def check_local_transaction(self, message: Message) -> TransactionStatus:
        """Say what became of the local transaction `message.transaction_id`.

        Where there is no trace of it, the local transaction did not run or was rolled back:
        ROLLBACK_MESSAGE. Where it may still be running: UNKNOWN.
        """


class Answer(NamedTuple):
    """What a listener said; `remark` says why it is UNKNOWN where it said nothing usable."""

    state: TransactionStatus
    remark: str | None = None


def ask(method: Callable[..., Any], *args: Any) -> Answer:
    """Ask a listener; None, an exception or anything that is no status is UNKNOWN."""
    name = getattr(method, "__name__", "the listener")
    try:
        said = method(*args)
    except Exception as error:
        _log.warning("%s failed; the state is UNKNOWN", name, exc_info=True)
        return unknown(f"{name} raised {type(error).__name__}")
    if isinstance(said, TransactionStatus):
        return Answer(said)
    if inspect.iscoroutine(said):
        said.close()
    _log.warning("%s returned a %s; the state is UNKNOWN", name, type(said).__name__)
    return unknown(f"{name} returned {type(said).__name__}, no TransactionStatus")


def unknown(remark: str) -> Answer:
    """Return UNKNOWN with why; a remark travels in each op, so it is short."""
    return Answer(TransactionStatus.UNKNOWN, remark[:_MAX_REMARK])


def check_listener(listener: Any) -> None:
    """Raise `ListenerError` unless `listener` can be asked."""
    for name in ("check_local_transaction", "execute_local_transaction"):
        method = getattr(listener, name, None)
        if name == "check_local_transaction" and not callable(method):
            raise ListenerError(
                f"{type(listener).__name__} has no method {name}; subclass "
                "resolver.TransactionListener"
            )
        if inspect.iscoroutinefunction(method):
            raise ListenerError(
                f"{type(listener).__name__}.{name} is async; listeners are called by threads, "
                "make it a plain method (asyncio.run inside, if need be)"
            )


def executes(listener: Any) -> bool:
    """Whether a listener has a local transaction to run, and not only answers checks."""
    method = getattr(type(listener), "execute_local_transaction", None)
    return callable(method) and method is not TransactionListener.execute_local_transaction


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
