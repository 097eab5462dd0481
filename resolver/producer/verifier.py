"""Asks the listener about a commit before its op is sent, as a check would ask.

Two mistakes show only after a crash otherwise: the id is not written in the local transaction, and
the database commits after the message.
"""

from __future__ import annotations

import copy
import logging
import os
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, NamedTuple

from ..errors import CommitNotConfirmed, ListenerError, SettingsError
from ..protocol import TransactionStatus
from .agent.pool import DaemonPool
from .message import Message
from .reported_state import ReportedState, call_listener, unknown

_log = logging.getLogger(__name__)
#: Environment variable that lets all producers verify that are not told otherwise.
VARIABLE = "TXRESOLVER_VERIFY"
_SWITCH = {"": False, "0": False, "1": True}
_MOST_THREADS = 5
_WRITE_ID = "write its id in the local transaction, as `log.commit(connection, tx.transaction_id)`"
_DATABASE_FIRST = (
    "let the database commit before the message does, as `with producer.transaction(message) as "
    "tx, engine.begin() as connection:`"
)


class Confirmation(NamedTuple):
    """A listener's answer about a commit, and the exception behind an answer that is missing."""

    answer: ReportedState
    error: BaseException | None = None


class Verifier:
    """Asks a listener from threads of its own: a check does not come from the sender's thread.

    A connection that belongs to a thread, such as Django's, would show the sender's own, open
    transaction.
    """

    def __init__(self, listener: Any, group: str, timeout_ms: int) -> None:
        self._listener = listener
        self._timeout_ms = timeout_ms
        self._pool = DaemonPool(1, _MOST_THREADS, f"txresolver-verify-{group}")

    @property
    def seconds(self) -> float:
        """Most time in seconds to wait for an answer."""
        return self._timeout_ms / 1000

    def ask(self, message: Message) -> Future[Confirmation]:
        """Ask as the first check of a message would."""
        asked: Future[Confirmation] = Future()
        asked.set_running_or_notify_cancel()  # rules out a cancellation
        check = copy.copy(message)
        object.__setattr__(check, "check_times", 1)  # the class is frozen for all other code

        def ask_listener() -> None:
            errors: list[BaseException | None] = []
            try:
                method = self._listener.check_local_transaction
                answer = call_listener(
                    method, check, warn=lambda _text, error=None: errors.append(error)
                )
            except BaseException as error:  # the sender raises it
                asked.set_exception(error)
            else:
                asked.set_result(Confirmation(answer, errors[0] if errors else None))

        self._pool.submit(ask_listener)
        return asked

    def confirm(self, message: Message) -> None:
        """Wait for the answer; raises `CommitNotConfirmed` unless it is COMMIT."""
        try:
            confirmation = self.ask(message).result(self.seconds)
        except FutureTimeout:
            confirmation = self.late()
        judge(message, confirmation)

    def late(self) -> Confirmation:
        """Return what stands for an answer that did not come in time."""
        return Confirmation(unknown(f"none came within check_timeout_ms, {self._timeout_ms}"))

    def close(self) -> None:
        self._pool.close()


def is_verifying(verify: bool | None, group: str, has_listener: bool) -> bool:
    """Whether a producer verifies its commits; None leaves it to the environment.

    Raises `SettingsError` for any other value, `ListenerError` where there is nobody to ask.
    """
    if verify is None:
        return _is_set() and (has_listener or _nobody_to_ask(group))
    if not isinstance(verify, bool):
        raise SettingsError(
            f"verify is {verify!r}", remedy=f"give True or False, or None for {VARIABLE}"
        )
    if verify and not has_listener:
        raise ListenerError(
            f"group {group!r} has verify=True and no listener to ask",
            remedy="give the one that answers its checks, checks_elsewhere=True or not",
        )
    return verify


def judge(message: Message, confirmation: Confirmation) -> None:
    """Raise `CommitNotConfirmed` unless the listener said COMMIT."""
    answer, error = confirmation
    if answer.state is TransactionStatus.COMMIT_MESSAGE:
        return
    committed = f"transaction {message.transaction_id} was committed, and"
    if answer.state is TransactionStatus.ROLLBACK_MESSAGE:
        problem, remedy = "a check would roll it back", f"{_WRITE_ID}, and {_DATABASE_FIRST}"
    elif answer.usable:
        problem, remedy = "the listener answers UNKNOWN to a check", _DATABASE_FIRST
    else:
        problem = f"a check would get no answer ({answer.remark})"
        remedy = f"{_DATABASE_FIRST}, or find out why check_local_transaction fails"
    raise CommitNotConfirmed(f"{committed} {problem}", remedy=remedy) from error


def _is_set() -> bool:
    setting = os.environ.get(VARIABLE, "")
    if setting not in _SWITCH:
        raise SettingsError(f"{VARIABLE} is {setting!r}", remedy="set it to 1 or 0, or remove it")
    return _SWITCH[setting]


def _nobody_to_ask(group: str) -> bool:
    _log.warning("%s is set, and group %s has no listener to ask: it goes on", VARIABLE, group)
    return False
