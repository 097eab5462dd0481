"""[groups.<name>]: the topics that a producer group may publish to, and who it is to Kafka."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import SettingsError
from ..groups import check_apart
from ..patterns import ANY, legal_pattern
from ..protocol.names import legal_group

TABLE = "groups"
_KEYS = ("topics", "principal")
_PRINCIPAL = re.compile(r"[A-Za-z]+:(?!\*$)\S(?:.*\S)?")


@dataclass(frozen=True)
class Group:
    """A section of [groups].

    `topics` are names or beginnings (`orders.*`); None: those of `[groups."*"]`, and without that
    any. `principal` is Kafka's name of the group's applications, such as `User:orders`.
    """

    topics: tuple[str, ...] | None = None
    principal: str = ""

    def __str__(self) -> str:
        topics = "" if self.topics is None else f"topics: {', '.join(self.topics) or 'none'}"
        principal = self.principal and f"principal: {self.principal}"
        return "; ".join(filter(None, (topics, principal)))


def read_group(name: str, section: Any, path: Path) -> Group:
    """Return a section as the file has it; what it holds is checked by `check_groups`."""
    if not isinstance(section, dict):
        raise SettingsError(f"groups in {path} has {name!r}; give a table, [groups.{name}]")
    for key, value in section.items():
        if isinstance(value, dict):
            raise SettingsError(
                f"[groups.{name}] in {path} has a table {key!r}; a group's name with dots is "
                f'quoted: [groups."{name}.{key}"]'
            )
        if key not in _KEYS:
            raise SettingsError(f"[groups.{name}] in {path} has {key!r}; give {' or '.join(_KEYS)}")
    topics = section.get("topics")
    if topics is not None and not isinstance(topics, list):
        raise SettingsError(
            f"topics of [groups.{name}] in {path} is {topics!r}; give a list, as in "
            'topics = ["orders.*"]'
        )
    return Group(None if topics is None else tuple(topics), section.get("principal", ""))


def check_groups(groups: Mapping[str, Group], prefix: str) -> None:
    """Raise `SettingsError` for a name, pattern or principal that can't be one.

    And for names of which one keeps out the other's check topic.
    """
    for name, group in groups.items():
        if name != ANY and not legal_group(name):
            raise SettingsError(
                f"[groups.{name!r}] is for no group; give 1 to 200 of a-z A-Z 0-9 . _ -, or "
                f'"{ANY}" for all that have no topics of their own'
            )
        if name.startswith(prefix):
            raise SettingsError(
                f"[groups.{name!r}] is for no group; names under topic_prefix ({prefix!r}) are the "
                "resolver's own"
            )
        for pattern in group.topics or ():
            if not isinstance(pattern, str) or not legal_pattern(pattern):
                raise SettingsError(
                    f"topics of [groups.{name}] has {pattern!r}; give a topic's name, or how names "
                    "begin followed by *, such as 'orders.*'"
                )
        _check_principal(name, group.principal)
    check_apart(groups)


def limits(groups: Mapping[str, Group]) -> dict[str, list[str]]:
    """Return the patterns of each group that has some, that of all others as `*`."""
    return {name: list(group.topics) for name, group in groups.items() if group.topics is not None}


def legal_principal(principal: Any) -> bool:
    """Whether it is a principal as Kafka writes it: `User:orders`; `User:*` is everybody."""
    return isinstance(principal, str) and _PRINCIPAL.fullmatch(principal) is not None


def _check_principal(name: str, principal: Any) -> None:
    if principal == "":
        return
    if name == ANY:
        raise SettingsError(f'[groups."{ANY}"] has a principal; give it to the groups by name')
    if not legal_principal(principal):
        raise SettingsError(
            f"principal of [groups.{name}] is {principal!r}; give it as Kafka's ACLs have it, "
            "such as 'User:orders', and not everybody"
        )
