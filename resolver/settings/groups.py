"""[groups.<name>]: the topics that a producer group may publish to, and its rights in Kafka."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import SettingsError
from ..protocol.groups import check_apart
from ..protocol.names import legal_group
from ..protocol.patterns import ANY, legal_pattern

TABLE = "groups"
_KEYS = ("topics", "principal", "fast")
_PRINCIPAL = re.compile(r"[A-Za-z]+:(?!\*$)\S(?:.*\S)?")


@dataclass(frozen=True)
class Group:
    """A section of [groups].

    `topics` are names or beginnings (`orders.*`). None means the topics of `[groups."*"]`, and
    without this section any topic. `principal` is Kafka's name of the group's applications, such as
    `User:orders`. `fast` says that the group's producers deliver commits themselves, which needs
    more rights.
    """

    topics: tuple[str, ...] | None = None
    principal: str = ""
    fast: bool = False

    def __str__(self) -> str:
        topics = "" if self.topics is None else f"topics: {', '.join(self.topics) or 'none'}"
        principal = self.principal and f"principal: {self.principal}"
        return "; ".join(filter(None, (topics, principal, "fast" if self.fast else "")))


def read_group(name: str, section: Any, path: Path) -> Group:
    """Return a section as the file has it; `check_groups` checks its values."""
    if not isinstance(section, dict):
        raise SettingsError(
            f"groups in {path} has {name!r}", remedy=f"give a table, [groups.{name}]"
        )
    for key, value in section.items():
        if isinstance(value, dict):
            raise SettingsError(
                f"[groups.{name}] in {path} has a table {key!r}",
                remedy=f'quote the name of a group that has dots: [groups."{name}.{key}"]',
            )
        if key not in _KEYS:
            raise SettingsError(
                f"[groups.{name}] in {path} has {key!r}", remedy="give topics, principal or fast"
            )
    topics = section.get("topics")
    if topics is not None and not isinstance(topics, list):
        raise SettingsError(
            f"topics of [groups.{name}] in {path} is {topics!r}",
            remedy='give a list, as in topics = ["orders.*"]',
        )
    other_keys = {key: value for key, value in section.items() if key != "topics"}
    return Group(None if topics is None else tuple(topics), **other_keys)


def check_groups(groups: Mapping[str, Group], prefix: str) -> None:
    """Raise `SettingsError` for an illegal name, pattern, principal or `fast`.

    It also refuses two names of which one keeps out the other's check topic.
    """
    for name, group in groups.items():
        if name != ANY and not legal_group(name):
            raise SettingsError(
                f"[groups.{name!r}] is for no group",
                remedy=f'give 1 to 200 of a-z A-Z 0-9 . _ -, or "{ANY}" for all that have no '
                "topics of their own",
            )
        if name.startswith(prefix):
            raise SettingsError(
                f"[groups.{name!r}] is for no group; names under topic_prefix ({prefix!r}) are "
                "the resolver's own",
                remedy="choose another",
            )
        for pattern in group.topics or ():
            if not isinstance(pattern, str) or not legal_pattern(pattern):
                raise SettingsError(
                    f"topics of [groups.{name}] has {pattern!r}",
                    remedy="give a topic's name, or how names begin followed by *, such as "
                    "'orders.*'",
                )
        _check_principal(name, group.principal)
        if not isinstance(group.fast, bool):
            raise SettingsError(
                f"fast of [groups.{name}] is {group.fast!r}", remedy="give true or false"
            )
    check_apart(groups)


def limits(groups: Mapping[str, Group]) -> dict[str, list[str]]:
    """Return the patterns of each group that has `topics`; `*` stands for all other groups."""
    return {name: list(group.topics) for name, group in groups.items() if group.topics is not None}


def legal_principal(principal: Any) -> bool:
    """Whether this is a principal as Kafka writes it, such as `User:orders`.

    `User:*` is everybody, and not legal here.
    """
    return isinstance(principal, str) and _PRINCIPAL.fullmatch(principal) is not None


def _check_principal(name: str, principal: Any) -> None:
    if principal == "":
        return
    if name == ANY:
        raise SettingsError(
            f'[groups."{ANY}"] has a principal', remedy="give it to the groups by name"
        )
    if not legal_principal(principal):
        raise SettingsError(
            f"principal of [groups.{name}] is {principal!r}",
            remedy="give it as Kafka's ACLs have it, such as 'User:orders', and not everybody",
        )
