"""An operation: who acts, how, why, and on which transactions."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ..errors import SettingsError
from ..protocol import Act, TransactionStatus
from ..views import HalfId

#: Most characters of an actor: the resolver keeps no more for a refused element.
_ACTOR_CHARACTERS = 200


@dataclass(frozen=True)
class Operation:
    """An act on transactions, which are fixed when it begins.

    `detail` is the state that `settle` gives, or the topic to which `replay` writes, else empty.
    `actor` and `reason` are for people, and for those who look later.
    """

    id: str
    act: Act
    detail: str
    actor: str
    reason: str
    halves: tuple[HalfId, ...]
    begun_at: datetime

    @classmethod
    def begin(
        cls,
        act: Act,
        detail: str,
        actor: str,
        reason: str,
        halves: Sequence[HalfId],
        now: datetime,
    ) -> Operation:
        """Return a new operation; raises `SettingsError` without an actor or a reason."""
        if not actor.strip() or len(actor) > _ACTOR_CHARACTERS:
            raise SettingsError(
                f"--actor is {actor!r}",
                remedy=f"give your name, of 1 to {_ACTOR_CHARACTERS} characters",
            )
        if not reason.strip():
            raise SettingsError("--reason is empty", remedy="say why, for those who look later")
        # Few operations begin in the same second: six digits tell them apart.
        own = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        return cls(own, act, detail, actor, reason, tuple(halves), now)

    @property
    def state(self) -> TransactionStatus:
        """The state of the ops that it sends: an ask decides nothing."""
        return TransactionStatus(self.detail) if self.act is Act.SETTLE else _ASK

    @property
    def is_once_for_all(self) -> bool:
        """Whether no other operation may have acted so on the same transaction."""
        return self.act is Act.RESUME


_ASK = TransactionStatus.UNKNOWN
