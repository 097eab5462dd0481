"""How a transaction is to end, as a listener, the application or the producer says."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ..errors import ListenerGone
from ..protocol import TransactionStatus

_log = logging.getLogger(__name__)
_MAX_REMARK = 500


class Answer(NamedTuple):
    """The end of a transaction, or the answer to a check; `remark` has a reason, if there is one.

    A listener, the application or the producer gives it. An UNKNOWN has a remark if the listener
    gave no usable answer.
    """

    state: TransactionStatus
    remark: str | None = None

    @property
    def usable(self) -> bool:
        """Whether the listener itself gave this answer."""
        return self.remark is None


class Warns(Protocol):
    """Logs a warning, with the error behind it if there is one."""

    def __call__(self, text: str, error: BaseException | None = None, /) -> None: ...


def _warn(text: str, error: BaseException | None = None, /) -> None:
    _log.warning("%s", text, exc_info=error)


def call_listener(method: Callable[..., Any], *args: Any, warn: Warns = _warn) -> Answer:
    """Call a listener's method, for a local transaction or a check.

    None, an exception or anything that is no status becomes UNKNOWN. `ListenerGone` passes through.
    """
    try:
        return_value = method(*args)
    except ListenerGone:
        raise
    except Exception as error:
        return failure_of(method, error, warn)
    return answer_to(method, return_value, warn)


def failure_of(method: Callable[..., Any], error: BaseException, warn: Warns = _warn) -> Answer:
    """Log an exception of a listener's method, and return UNKNOWN for it."""
    name = _name(method)
    warn(f"{name} failed; the state is UNKNOWN", error)
    return unknown(f"{name} raised {type(error).__name__}")


def answer_to(method: Callable[..., Any], return_value: Any, warn: Warns = _warn) -> Answer:
    """Return the status that a listener's method returned; UNKNOWN if it is no status."""
    if isinstance(return_value, TransactionStatus):
        return Answer(return_value)
    if inspect.iscoroutine(return_value):
        return_value.close()
    name = _name(method)
    warn(f"{name} returned a {type(return_value).__name__}; the state is UNKNOWN")
    return unknown(f"{name} returned {type(return_value).__name__}, no TransactionStatus")


def unknown(remark: str) -> Answer:
    """Return UNKNOWN with a reason, cut short: each op carries it as its remark."""
    return Answer(TransactionStatus.UNKNOWN, remark[:_MAX_REMARK])


def _name(method: Callable[..., Any]) -> str:
    return getattr(method, "__name__", "the listener")
