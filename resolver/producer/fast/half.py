"""A stored half that its producer may commit fast, until its time for that is over."""

from __future__ import annotations

import time
from typing import Protocol

from ...protocol import Names, StoredHalf
from ..commit_wait import CommitWait
from ..half_sender import SentHalf
from ..message import Message
from ..reported_state import ReportedState

#: Share of a half's immunity in which it may be committed fast. The rest is for the Kafka
#: transaction: once the half is due, the resolver revokes the fast id, with all that is under way.
_SHARE = 0.8


class FastHalfEnder(Protocol):
    """Ends fast halves, as `FastLane` does."""

    def end(self, half: FastHalf, reported: ReportedState, done: CommitWait | None) -> None: ...


class FastHalf:
    """A half that names a fast id. Its lane's lock guards what changes.

    Attributes:
        until: Time of the monotonic clock until which it may be committed fast.
        done: Result of the commit, if somebody waits: whether the message is visible.
        has_given_up: Whether the resolver was told that it will not be committed fast.
    """

    __slots__ = ("_lane", "done", "has_given_up", "message", "sent", "until")

    def __init__(
        self, lane: FastHalfEnder, sent: SentHalf, message: Message, immunity: float
    ) -> None:
        self.sent = sent
        self.message = message
        # The half's own clock began before Kafka stored it, and so before the resolver's.
        age = max(0.0, time.time() - sent.half.born_at_ms / 1000)
        self.until = time.monotonic() + _SHARE * immunity - age
        self.done: CommitWait | None = None
        self.has_given_up = False
        self._lane = lane

    @property
    def fast_id(self) -> str | None:
        """The only fast id by which it may be committed."""
        return self.sent.half.fast_id

    @property
    def size(self) -> int:
        """Approximate size of this message in the Kafka transaction, in bytes."""
        return len(self.sent.half.key or b"") + len(self.sent.half.body or b"")

    def end(self, reported: ReportedState, done: CommitWait | None = None) -> None:
        """End it, by the fast lane or by an op; `done` gets the result of a commit."""
        self._lane.end(self, reported, done)

    def as_stored(self, names: Names) -> StoredHalf:
        """Return it as the resolver reads it."""
        sent = self.sent
        headers = sent.half.to_record(names.half).headers
        return StoredHalf(sent.queue, sent.offset, sent.stored_at_ms, sent.half, headers)
