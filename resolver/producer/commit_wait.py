"""Waits for a commit: until its message is visible, or its op is stored."""

from __future__ import annotations

from concurrent.futures import Future

from ..errors import CommitNotAcknowledged
from .message import Message
from .op_pack import OnStored

#: A wait for a commit: True if the message is visible, False if the resolver will deliver it.
CommitWait = Future[bool]


def new_wait() -> CommitWait:
    """Return a future that nobody can cancel."""
    done: CommitWait = Future()
    done.set_running_or_notify_cancel()  # rules out a cancellation
    return done


def end_of_wait(message: Message, done: CommitWait | None) -> OnStored | None:
    """Return the callback of the op, which ends the wait; None if nobody waits."""
    if done is None:
        return None

    def stored(error: Exception | None) -> None:
        if error is None:
            done.set_result(False)
        else:
            done.set_exception(not_acknowledged(message, str(error)))

    return stored


def not_acknowledged(message: Message, why: str) -> CommitNotAcknowledged:
    """Return the error of a wait that has found out nothing."""
    return CommitNotAcknowledged(
        f"Kafka did not acknowledge the commit of transaction {message.transaction_id} for topic "
        f"{message.topic}: {why}. The commit may be stored all the same, else a check ends the "
        "transaction by what the local transaction has written",
        remedy="go on: do not send the message again",
    )
