"""Messages as an application sends them, and as its listener sees them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..protocol import Half, HalfId

__all__ = ["Message"]


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a transaction: whatever Kafka can carry, bit for bit.

    Args:
        topic: Real topic, where consumers see the message once it is committed.
        body: Any bytes, or None (null). Empty bytes are not null.
        key: Any bytes, or None (null).
        headers: Pairs of name and bytes or None, in their order. Names may repeat.
        real_qid: Partition of `topic`. None: the choice of Java's default partitioner.
        check_immunity_seconds: Seconds in which no check is sent. None: the resolver's
            `transaction_timeout_ms`.
        ordering_key: Any bytes. Messages of one ordering key are delivered in the order of their
            commits. None: the key. It is not stored, and None in what the listener sees.

    Attributes:
        transaction_id: The transaction's name, new for each send. Empty before the send.
        born_at_ms: Time of the send in ms since 1970, by the sender's clock. 0 before the send.
        half_offset: `queue:offset`, the identity of the transaction. Empty before the send.
        check_times: Number of the check, from 1. 0 in the local transaction.
        truncated: Whether body and headers are cut here, and a long key left out. The delivered
            message is not cut.

    The listener sees the attributes filled in. A half may not fit into its check, because it was
    stored compressed or the check topic's limit is lower. `truncated` is then true.

    Raises:
        MessageRefused: On sending, if a field is illegal. Making a message checks nothing.

    Example:
        ```python
        message = Message("orders.placed", b'{"order": 1}', key=b"customer-7")
        ```
    """

    topic: str
    body: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = field(default_factory=list)
    real_qid: int | None = None
    check_immunity_seconds: int | None = None
    ordering_key: bytes | None = field(default=None, compare=False)
    transaction_id: str = field(default="", init=False, compare=False)
    born_at_ms: int = field(default=0, init=False, compare=False)
    half_offset: str = field(default="", init=False, compare=False)
    check_times: int = field(default=0, init=False, compare=False)
    truncated: bool = field(default=False, init=False, compare=False)

    def __post_init__(self) -> None:
        if self.headers is None:  # other clients write None for no headers
            object.__setattr__(self, "headers", [])

    @property
    def queue_key(self) -> bytes | None:
        """The bytes that choose the queue; None for any queue. Not part of the API."""
        return self.key if self.ordering_key is None else self.ordering_key

    @classmethod
    def of_half(
        cls, half: Half, half_id: HalfId, check_times: int = 0, truncated: bool = False
    ) -> Message:
        """Return the message of a stored half, as the listener sees it. Not part of the API."""
        message = cls(
            half.topic, half.body, half.key, half.headers, half.real_qid, half.immunity_seconds
        )
        fill = object.__setattr__  # the class is frozen for all other code
        fill(message, "transaction_id", half.transaction_id)
        fill(message, "born_at_ms", half.born_at_ms)
        fill(message, "half_offset", str(half_id))
        fill(message, "check_times", check_times)
        fill(message, "truncated", truncated)
        return message

    def to_half(self, group: str, transaction_id: str, born_at_ms: int) -> Half:
        """Return the half that carries this message. Not part of the API.

        `message_rules.check_message` has the rules.
        """
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
