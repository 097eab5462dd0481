"""The state of a local transaction, as a listener, the application or the producer reports it.

`call_listener` runs a listener's local transaction, or asks the listener about a check.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ..errors import ListenerGone
from ..protocol import TransactionStatus

_log = logging.getLogger(__name__)
_MAX_REMARK = 500


class ReportedState(NamedTuple):
    """A state that an op carries: the end of a transaction, or the answer to a check.

    `remark` has the reason of a state that the producer itself reports: UNKNOWN if the listener
    gave no usable state, or the rollback of a send that was given up.
    """

    state: TransactionStatus
    remark: str | None = None

    @property
    def usable(self) -> bool:
        """Whether the listener or the application reported this state."""
        return self.remark is None


class Warns(Protocol):
    """Logs a warning, with the error behind it if there is one."""

    def __call__(self, text: str, error: BaseException | None = None, /) -> None: ...


def _warn(text: str, error: BaseException | None = None, /) -> None:
    _log.warning("%s", text, exc_info=error)


def call_listener(method: Callable[..., Any], *args: Any, warn: Warns = _warn) -> ReportedState:
    """Call a listener's method, for a local transaction or a check.

    None, an exception or anything that is no status becomes UNKNOWN. `ListenerGone` passes through.
    """
    try:
        return_value = method(*args)
    except ListenerGone:
        raise
    except Exception as error:
        return failure_of(method, error, warn)
    return state_of(method, return_value, warn)


def failure_of(
    method: Callable[..., Any], error: BaseException, warn: Warns = _warn
) -> ReportedState:
    """Log an exception of a listener's method, and return UNKNOWN for it."""
    name = _name(method)
    warn(f"{name} failed; the state is UNKNOWN", error)
    return unknown(f"{name} raised {type(error).__name__}")


def state_of(method: Callable[..., Any], return_value: Any, warn: Warns = _warn) -> ReportedState:
    """Return the status that a listener's method returned; UNKNOWN if it is no status."""
    if isinstance(return_value, TransactionStatus):
        return ReportedState(return_value)
    if inspect.iscoroutine(return_value):
        return_value.close()
    name = _name(method)
    warn(f"{name} returned a {type(return_value).__name__}; the state is UNKNOWN")
    return unknown(f"{name} returned {type(return_value).__name__}, no TransactionStatus")


def unknown(remark: str) -> ReportedState:
    """Return UNKNOWN with a reason, cut short: each op carries it as its remark."""
    return ReportedState(TransactionStatus.UNKNOWN, remark[:_MAX_REMARK])


def _name(method: Callable[..., Any]) -> str:
    return getattr(method, "__name__", "the listener")
