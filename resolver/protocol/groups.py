"""Rules for the names of producer groups, whose members answer for each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ..errors import SettingsError
from . import legal_group


def check_group(group: Any, prefix: str) -> None:
    """Raise `SettingsError` unless `group` can be a producer group.

    It becomes a consumer group too. Under the prefix it could be the group of the resolver's
    marker.
    """
    if not isinstance(group, str) or not legal_group(group):
        raise SettingsError(f"group is {group!r}", remedy="give 1 to 200 of a-z A-Z 0-9 . _ -")
    if group.startswith(prefix):
        raise SettingsError(
            f"group is {group!r}; names under the prefix {prefix!r} are the protocol's own",
            remedy="choose another",
        )


def check_apart(groups: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raise `SettingsError` if a group of `groups` can't have a check topic beside another group.

    `others` are further groups to compare with. Kafka refuses a topic whose name differs from
    another only in `.` and `_`: the metrics of both would have one name.
    """
    wanted, alike = sorted(groups), defaultdict(set)
    for name in (*wanted, *others):
        alike[name.replace("_", ".")].add(name)
    for group in wanted:
        for other in sorted(alike[group.replace("_", ".")] - {group}):
            raise SettingsError(
                f"groups {group!r} and {other!r} differ only in . and _, and Kafka takes the check "
                "topic of one of them alone",
                remedy="rename one, or delete the check topic of the one that is nobody's",
            )
