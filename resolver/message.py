"""Messages as an application sends them, and as its listener sees them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .protocol import Half

__all__ = ["Message"]


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a transaction: whatever Kafka can carry, bit for bit.

    | field | meaning |
    | --- | --- |
    | topic | where consumers will see it, once it is committed |
    | body, key | any bytes, or None (null); empty bytes are not null |
    | headers | list of pairs of name and bytes or None, in their order; names may repeat |
    | real_qid | the partition of `topic`; None: as Java's default partitioner chooses |
    | check_immunity_seconds | how long no check is sent; None: the resolver's setting |

    The rest is filled in for the listener, and empty before. `transaction_id` is new for each
    send; `born_at_ms` is when that was, by the sender's clock; `half_offset` (`queue:offset`)
    identifies the transaction everywhere; `check_times` counts the checks, 0 in the local
    transaction. A check does not carry the key: there `key` is None. `truncated`: it did not fit
    into its check (a half that is compressed, or check topics with a lower limit), so that the body
    and headers are cut here; what is delivered is not.
    """

    topic: str
    body: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = field(default_factory=list)
    real_qid: int | None = None
    check_immunity_seconds: int | None = None
    transaction_id: str = field(default="", init=False, compare=False)
    born_at_ms: int = field(default=0, init=False, compare=False)
    half_offset: str = field(default="", init=False, compare=False)
    check_times: int = field(default=0, init=False, compare=False)
    truncated: bool = field(default=False, init=False, compare=False)

    def __post_init__(self) -> None:
        if self.headers is None:  # as other clients say that there are none
            object.__setattr__(self, "headers", [])

    @classmethod
    def of_half(
        cls, half: Half, queue: int, offset: int, check_times: int = 0, truncated: bool = False
    ) -> Message:
        """Return the message of a stored half, as the listener sees it."""
        message = cls(
            half.topic, half.body, half.key, half.headers, half.real_qid, half.immunity_seconds
        )
        fill = object.__setattr__  # the class is frozen for everybody else
        fill(message, "transaction_id", half.transaction_id)
        fill(message, "born_at_ms", half.born_at_ms)
        fill(message, "half_offset", f"{queue}:{offset}")
        fill(message, "check_times", check_times)
        fill(message, "truncated", truncated)
        return message

    def to_half(self, group: str, transaction_id: str, born_at_ms: int) -> Half:
        """Return the half that carries this message; see `check_message` for what is legal."""
        return Half(
            transaction_id,
            group,
            self.topic,
            born_at_ms,
            self.key,
            self.body,
            list(self.headers),
            self.real_qid,
            self.check_immunity_seconds,
        )
