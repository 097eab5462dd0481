"""Names of topics and of protocol headers, and which names are legal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

TRAN_MSG = "TRAN_MSG"
UNIQ_KEY = "UNIQ_KEY"
PGROUP = "PGROUP"
REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
BORN_TIMESTAMP = "BORN_TIMESTAMP"
CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
#: The fast id of a half's producer: a Kafka transactional id.
FAST = "FAST"
TAGS = "TAGS"
HALF_OFFSET = "HALF_OFFSET"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
REASON = "REASON"
ERROR = "ERROR"
SOURCE = "SOURCE"
ELEMENT = "ELEMENT"
TRUNCATED = "TRUNCATED"
RESOLUTION = "RESOLUTION"
#: Last header of a half that an operator brings back: the half id of the one that was given up. The
#: name is not reserved: a user's header may have it.
RESUMES = "RESUMES"
#: First header of a row of the ledger whose message was erased: by which operation. No record in
#: Kafka is taken for one: with this header and without UNIQ_KEY its row has no transaction id.
ERASED = "ERASED"
#: First header of a check. The name is not reserved: a user's header may have it.
KEY = "KEY"

OP_TAG = b"d"
FENCE_TAG = b"fence"
RELEASE_TAG = b"release"
REVOKED_TAG = b"revoked"

#: Headers of a half that the protocol reads; all others are the user's.
HALF_HEADERS = frozenset(
    {
        TRAN_MSG,
        UNIQ_KEY,
        PGROUP,
        REAL_TOPIC,
        REAL_QID,
        BORN_TIMESTAMP,
        CHECK_IMMUNITY_TIME_IN_SECONDS,
        FAST,
    }
)
#: Headers that only this system's outputs carry: illegal in a half and in a user's message.
OUTPUT_HEADERS = frozenset(
    {HALF_OFFSET, TRANSACTION_CHECK_TIMES, REASON, ERROR, SOURCE, ELEMENT, TRUNCATED}
)

MAX_GROUP_LENGTH = 200
MAX_TOPIC_LENGTH = 249
MAX_TRANSACTION_ID_LENGTH = 128
#: Longest name that a producer gives its fast id, after the group.
MAX_FAST_NAME_LENGTH = 64
MAX_OFFSET = 2**63 - 1
#: Most elements of one op: it limits the work that a single record can cause in the resolver.
MAX_OP_ELEMENTS = 1024
MAX_PARTITION = 2**31 - 1

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def legal_topic(name: str) -> bool:
    """Whether Kafka accepts `name` as a topic's name."""
    return len(name) <= MAX_TOPIC_LENGTH and _is_legal(name) and name not in (".", "..")


def legal_group(name: str) -> bool:
    """Whether `name` can be a producer group: legal within a topic's name, up to 200 characters."""
    return len(name) <= MAX_GROUP_LENGTH and _is_legal(name)


@lru_cache(maxsize=4096)  # callers check the length first: anybody may choose these names
def _is_legal(name: str) -> bool:
    return _LEGAL.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Names:
    """The protocol's names of topics, groups and transactional ids under one prefix.

    The prefix is RocketMQ's namespace.
    """

    prefix: str = "tx."

    @property
    def half(self) -> str:
        return f"{self.prefix}half"

    @property
    def op(self) -> str:
        return f"{self.prefix}op"

    @property
    def resolution(self) -> str:
        return f"{self.prefix}resolution"

    @property
    def discarded(self) -> str:
        return f"{self.prefix}discarded"

    @property
    def quarantine(self) -> str:
        return f"{self.prefix}quarantine"

    @property
    def parked(self) -> str:
        """The lane: messages wait here for their real topic, so that no other message waits."""
        return f"{self.prefix}parked"

    @property
    def policy(self) -> str:
        """The resolver's policy: producers refuse by it what the resolver would not deliver."""
        return f"{self.prefix}policy"

    @property
    def operation(self) -> str:
        """The operators' claims: which transactions each operation has acted on, in order."""
        return f"{self.prefix}operation"

    def operator_id(self, operation: str) -> str:
        """Return the transactional id of an operation: who goes on with it fences who began it."""
        return f"{self.prefix}operator-{operation}"

    @property
    def fast_ids(self) -> str:
        """The beginning of all fast ids."""
        return f"{self.prefix}fast:"

    def fast_id(self, group: str, name: str) -> str:
        """Return the fast id of a producer: the transactional id that commits its halves fast.

        The group is in it, so that no producer can have another group's id revoked.
        """
        return f"{self.fast_ids}{group}:{name}"

    def is_fast_id(self, fast_id: str, group: str) -> bool:
        """Whether this is a legal fast id of a group: no group has a colon."""
        start = self.fast_id(group, "")
        name = fast_id.removeprefix(start)
        fits = 1 <= len(name) <= MAX_FAST_NAME_LENGTH
        return fits and fast_id.startswith(start) and _LEGAL.fullmatch(name) is not None

    @property
    def marker(self) -> str:
        return f"{self.prefix}marker"

    @property
    def resolver(self) -> str:
        """The consumer group that keeps the resolver's marker, and its first transactional id."""
        return f"{self.prefix}resolver"

    def transactional_id(self, generation: int) -> str:
        """Return a generation's transactional id; a new generation follows one that can't end."""
        return f"{self.resolver}-{generation}" if generation else self.resolver

    @property
    def ends_id(self) -> str:
        """The transactional id of the records by which a rebuild proves where topics end."""
        return f"{self.resolver}-ends"

    @property
    def reader(self) -> str:
        """The consumer group of clients that only read: it commits nothing and has no members."""
        return f"{self.prefix}reader"

    def check(self, group: str) -> str:
        """Return the topic of a group's check requests."""
        return f"{self.prefix}check.{group}"

    def checked_group(self, topic: str) -> str | None:
        """Return the group of a check topic; None for any other topic."""
        check = self.check("")
        return topic.removeprefix(check) if topic.startswith(check) else None
