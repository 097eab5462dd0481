"""The contract of a listener and its local transaction, tried on a real database."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ..errors import ContractBroken
from ..producer.listener import check_listener
from ..producer.message import Message
from ..producer.verifier import Confirmation
from ..protocol import TransactionStatus
from .asking import Asking
from .killed import check_sendable, run_and_kill

__all__ = ["check_contract"]

#: A local transaction: its id, and a function that it calls as its last step before the commit.
Run = Callable[[str, Callable[[], None]], None]
_COMMIT, _ROLLBACK = TransactionStatus.COMMIT_MESSAGE, TransactionStatus.ROLLBACK_MESSAGE
_COMMIT_BEFORE = (
    "write the id in the local transaction, and let the database commit before run returns"
)
_ONE_TRANSACTION = (
    "write the id on the connection of the local transaction and in its transaction, not before, "
    "not after, not with autocommit"
)
_BARRIER = (
    "let the check write the id as rolled back, under the primary key that the local transaction "
    "writes, and commit that before it answers"
)


def check_contract(
    listener: Any,
    run: Run,
    count: Callable[[], int],
    *,
    message: Message = Message("contract", b""),  # noqa: B008 - it is frozen
    patience_seconds: float = 10.0,
) -> None:
    """Try a listener and a local transaction on their real database; return if they fit.

    Each case has a new transaction id:

    - The local transaction commits. A check answers COMMIT.
    - It fails before its commit. A check answers ROLLBACK.
    - Its process is killed before its commit. A check answers ROLLBACK.
    - A check comes before it. It can't commit any more.
    - A check comes while it runs. Answer and database agree in the end.

    The listener is asked from other threads, as an agent asks it. The process that is killed is a
    new one, which multiprocessing spawns.

    Args:
        listener: The listener. Its method may be async.
        run: The whole local transaction, `run(transaction_id, before_commit)`. It writes the id and
            at least one row, calls `before_commit()` as its last step, and commits. It is a
            function of a module, or a `functools.partial` of one.
        count: Returns the number of rows that `run` has committed, without the log's.
        message: Message that the checks carry.
        patience_seconds: Most time in seconds until the listener answers.

    Raises:
        ContractBroken: With the case, the mistake and the remedy.
        ListenerError: If the listener is unusable, or `run` can't be sent to another process.

    Example:
        docs/testing.md has a `run` and a `count`.

        ```python
        def test_the_listener_keeps_the_contract():
            check_contract(SqlTransactionListener(engine, log), run, count)
        ```
    """
    check_listener(listener, may_be_async=True)
    check_sendable(run)
    with Asking(listener, message, patience_seconds) as asking:
        for case in (_commits, _fails, _is_killed, _comes_after_its_check, _is_checked_meanwhile):
            case(_Trial(asking, run, count, str(uuid.uuid4()), count()))


@dataclass(frozen=True, slots=True)
class _Trial:
    """A local transaction, and the number of rows before it."""

    asking: Asking
    run: Run
    count: Callable[[], int]
    transaction_id: str
    before: int

    @property
    def has_committed(self) -> bool:
        return self.count() > self.before

    def run_to_its_end(self, action: Callable[[], None]) -> Exception | None:
        """Run the local transaction; return the exception that ended it."""
        try:
            self.run(self.transaction_id, action)
        except Exception as error:
            return error
        return None

    def must_be(self, wanted: TransactionStatus, when: str, remedy: str) -> None:
        """Raise `ContractBroken` unless database and check agree with a status."""
        if self.has_committed is not (wanted is _COMMIT):
            is_there = "is" if self.has_committed else "is not"
            raise ContractBroken(f"{when}, and its row {is_there} in the database", remedy=remedy)
        self.asking.must_answer(self.transaction_id, wanted, when, remedy)


class _Once:
    """Acts at its first call: a hook on the database's commits is called for the checks' too."""

    def __init__(self, action: Callable[[], None] = lambda: None) -> None:
        self._action = action
        self.called = False

    def __call__(self) -> None:
        if not self.called:
            self.called = True
            self._action()


class _Undone(Exception):
    """Ends a local transaction before its commit."""


def _commits(trial: _Trial) -> None:
    before_commit = _Once()
    trial.run(trial.transaction_id, before_commit)
    if not before_commit.called:
        raise ContractBroken(
            "run returned and did not call before_commit()",
            remedy="call it as the last step before the database commits",
        )
    trial.must_be(_COMMIT, "the local transaction has returned", _COMMIT_BEFORE)


def _fails(trial: _Trial) -> None:
    def undo() -> None:
        raise _Undone

    trial.run_to_its_end(_Once(undo))
    trial.must_be(_ROLLBACK, "the local transaction failed before its commit", _ONE_TRANSACTION)


def _is_killed(trial: _Trial) -> None:
    run_and_kill(trial.run, trial.transaction_id)
    when = "the process of the local transaction was killed before its commit"
    trial.must_be(_ROLLBACK, when, _ONE_TRANSACTION)


def _comes_after_its_check(trial: _Trial) -> None:
    trial.must_be(_ROLLBACK, "the local transaction has not run", _BARRIER)
    trial.run_to_its_end(_Once())
    trial.must_be(_ROLLBACK, "a check rolled the local transaction back before it ran", _BARRIER)


def _is_checked_meanwhile(trial: _Trial) -> None:
    asked: list[Future[Confirmation]] = []
    early: list[Confirmation] = []

    def check() -> None:
        asked.append(trial.asking.ask(trial.transaction_id))
        # A check may wait for this local transaction: go on then, and it gets its answer.
        early.append(trial.asking.wait(asked[0]))

    failure = trial.run_to_its_end(_Once(check))
    if not early:
        raise ContractBroken("run did not call before_commit()") from failure
    if early[0].answer.state is _COMMIT:
        raise ContractBroken(
            "a check got COMMIT before the local transaction had committed",
            remedy="let the listener read on a connection of its own, and only what is committed",
        )
    answer = trial.asking.wait(asked[0]).answer
    if answer.state is _ROLLBACK:
        when = "a check rolled the local transaction back while it ran"
        trial.must_be(_ROLLBACK, when, _BARRIER)
    elif trial.has_committed:
        trial.must_be(_COMMIT, "the local transaction has committed after a check", _COMMIT_BEFORE)
    else:
        trial.must_be(_ROLLBACK, "the local transaction failed after a check", _ONE_TRANSACTION)
