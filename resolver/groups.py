"""Producer groups: names of those who answer for each other."""

from __future__ import annotations

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
