"""Which topics are meant: a name, or the beginning of names followed by `*`.

Kafka's own ACLs have exactly these two, so that what is allowed here can be granted there.
"""

from __future__ import annotations

from .protocol.names import legal_topic

#: What stands for every topic, and in [groups] for every group without a section.
ANY = "*"


def legal_pattern(pattern: str) -> bool:
    """Whether it is a topic's name, or the beginning of one followed by `*`."""
    return pattern == ANY or legal_topic(pattern.removesuffix(ANY))


def matches(pattern: str, topic: str) -> bool:
    """Whether a topic is one of those that are meant."""
    if pattern.endswith(ANY):
        return topic.startswith(pattern.removesuffix(ANY))
    return topic == pattern


def may_begin(pattern: str, prefix: str) -> bool:
    """Whether a topic whose name begins with `prefix` may be one of those that are meant."""
    beginning = pattern.removesuffix(ANY)
    return beginning.startswith(prefix) or (pattern != beginning and prefix.startswith(beginning))
