"""Producer groups: names of those who answer for each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from .errors import SettingsError
from .protocol import legal_group


def check_group(group: Any, prefix: str) -> None:
    """Raise `SettingsError` unless `group` can be a producer group.

    It is a consumer group too: one under the prefix might be that of the resolver's marker.
    """
    if not isinstance(group, str) or not legal_group(group):
        raise SettingsError(f"group is {group!r}; give 1 to 200 of a-z A-Z 0-9 . _ -")
    if group.startswith(prefix):
        raise SettingsError(
            f"group is {group!r}; names under the prefix {prefix!r} are the protocol's own, choose "
            "another"
        )


def check_apart(groups: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raise `SettingsError` if one of `groups` and another one can't both have a check topic.

    Kafka has no two topics whose names differ only in `.` and `_`: their metrics would have one
    name.
    """
    wanted, alike = sorted(groups), defaultdict(set)
    for name in (*wanted, *others):
        alike[name.replace("_", ".")].add(name)
    for group in wanted:
        for other in sorted(alike[group.replace("_", ".")] - {group}):
            raise SettingsError(
                f"groups {group!r} and {other!r} differ only in . and _, and Kafka takes the check "
                "topic of one of them alone; rename one, or delete the check topic of the one that "
                "is nobody's"
            )
