"""Patterns of topics: a name, or the beginning of names followed by `*`.

Kafka's ACLs have exactly these two kinds, so a pattern that is allowed here can be granted there.
"""

from __future__ import annotations

from .names import legal_topic

#: Pattern of every topic; in [groups], the name for every group without a section.
ANY = "*"


def legal_pattern(pattern: str) -> bool:
    """Whether the pattern is a topic's name, or the beginning of one followed by `*`."""
    return pattern == ANY or legal_topic(pattern.removesuffix(ANY))


def matches(pattern: str, topic: str) -> bool:
    """Whether the pattern covers a topic."""
    if pattern.endswith(ANY):
        return topic.startswith(pattern.removesuffix(ANY))
    return topic == pattern


def may_begin(pattern: str, prefix: str) -> bool:
    """Whether the pattern may cover a topic whose name begins with `prefix`."""
    beginning = pattern.removesuffix(ANY)
    return beginning.startswith(prefix) or (pattern != beginning and prefix.startswith(beginning))
