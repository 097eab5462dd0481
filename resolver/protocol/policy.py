"""The resolver's policy: the messages that it delivers, by group and real topic.

The resolver publishes it in `tx.policy`, and decides by it. Producers read it, so that they refuse
the same messages before anything is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import orjson

from ..errors import ProtocolError
from .patterns import ANY, matches
from .record import Record, short

#: Version of the record's format; a reader takes no other version.
VERSION = 1
#: Key of the policy's records: `tx.policy` is compacted, and keeps the last of them.
_KEY = b"policy"
#: Most patterns that a refusal names: its text becomes a header of the message.
_MOST_NAMED = 5


class Policy(NamedTuple):
    """The policy: `rejects` all new transactions, and the `topics` of each group.

    `topics` has patterns by group; `*` is all groups that are not named. A group without patterns
    may publish to any topic.
    """

    rejects: bool
    topics: Mapping[str, Sequence[str]]

    def refusal(self, group: str, topic: str) -> str:
        """Return why a group's message for a topic is not delivered; empty if it is."""
        if self.rejects:
            return "new transactions are refused while reject_transaction_message is set"
        patterns = self.topics.get(group, self.topics.get(ANY))
        if patterns is None or any(matches(pattern, topic) for pattern in patterns):
            return ""
        return (
            f"group {group!r} may not publish to topic {topic}: its topics in the settings are "
            f"{_named(patterns)}"
        )

    def to_record(self, policy_topic: str) -> Record:
        """Encode as a record of the policy topic."""
        fields = {"version": VERSION, "reject": self.rejects, "topics": dict(self.topics)}
        return Record(policy_topic, _KEY, orjson.dumps(fields, option=orjson.OPT_SORT_KEYS), [], 0)


class Refusals(dict[tuple[str, str], str]):
    """A policy's refusals by group and topic, each decided once; empty for what is delivered.

    Messages are many, and pairs of group and topic are few.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy

    def __missing__(self, pair: tuple[str, str]) -> str:
        self[pair] = refusal = self.policy.refusal(*pair)
        return refusal


def decode_policy(value: bytes | None) -> Policy:
    """Decode a record of the policy topic; unknown fields are ignored.

    Raises `ProtocolError` for another version of the format, and for what is no policy.
    """
    try:
        fields = orjson.loads(value or b"")
        version, rejects, topics = fields["version"], fields["reject"], fields["topics"]
        if version != VERSION:
            raise ProtocolError(f"its version is {short(version)}, and {VERSION} is known here")
        if not isinstance(rejects, bool) or not _are_patterns(topics):
            raise TypeError(f"reject {rejects!r}, topics {topics!r}")
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"{short(value)} is no policy: {short(str(error))}") from error
    return Policy(rejects, topics)


def _are_patterns(topics: object) -> bool:
    return isinstance(topics, dict) and all(
        isinstance(patterns, list) and all(isinstance(pattern, str) for pattern in patterns)
        for patterns in topics.values()
    )


def _named(patterns: Sequence[str]) -> str:
    unnamed = len(patterns) - _MOST_NAMED
    named = ", ".join(patterns[:_MOST_NAMED]) or "none"
    return f"{named} and {unnamed} more" if unnamed > 0 else named
