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
TAGS = "TAGS"
HALF_OFFSET = "HALF_OFFSET"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
REASON = "REASON"
ERROR = "ERROR"
SOURCE = "SOURCE"
ELEMENT = "ELEMENT"
TRUNCATED = "TRUNCATED"

OP_TAG = b"d"
FENCE_TAG = b"fence"

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
    }
)
#: Headers that only this system's outputs carry: illegal in a half and in a user's message.
OUTPUT_HEADERS = frozenset(
    {HALF_OFFSET, TRANSACTION_CHECK_TIMES, REASON, ERROR, SOURCE, ELEMENT, TRUNCATED}
)

MAX_GROUP_LENGTH = 200
MAX_TOPIC_LENGTH = 249
MAX_TRANSACTION_ID_LENGTH = 128
MAX_OFFSET = 2**63 - 1
#: Elements of one op: what one record can make the resolver do has a limit.
MAX_OP_ELEMENTS = 1024
MAX_PARTITION = 2**31 - 1

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def legal_topic(name: str) -> bool:
    """Whether Kafka accepts `name` as a topic's name."""
    return len(name) <= MAX_TOPIC_LENGTH and _is_legal(name) and name not in (".", "..")


def legal_group(name: str) -> bool:
    """Whether `name` can be a producer group: legal within a topic's name, up to 200 characters."""
    return len(name) <= MAX_GROUP_LENGTH and _is_legal(name)


@lru_cache(maxsize=4096)  # of short names only: what is remembered is anybody's to choose
def _is_legal(name: str) -> bool:
    return _LEGAL.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Names:
    """The protocol's names under one prefix, RocketMQ's namespace: of topics, if nothing else."""

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
    def marker(self) -> str:
        return f"{self.prefix}marker"

    @property
    def resolver(self) -> str:
        """The resolver's transactional id, and the consumer group that keeps its marker."""
        return f"{self.prefix}resolver"

    @property
    def reader(self) -> str:
        """The consumer group of those who only look; it commits nothing and has no members."""
        return f"{self.prefix}reader"

    def check(self, group: str) -> str:
        """Return the topic of a group's check requests."""
        return f"{self.prefix}check.{group}"

    def checked_group(self, topic: str) -> str | None:
        """Return whose check topic this is; None where it is none."""
        check = self.check("")
        return topic.removeprefix(check) if topic.startswith(check) else None
