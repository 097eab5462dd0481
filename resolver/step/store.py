"""A step's view of a queue's state: read lazily, written once at the end."""

from __future__ import annotations

from collections.abc import Mapping

#: What a step changes in its queue's state: a key's new value, or None to remove it.
Changes = dict[str, bytes | None]


class Store:
    """State as it was, overlaid by what this step has changed."""

    def __init__(self, before: Mapping[str, bytes]) -> None:
        self._before = before
        self.changes: Changes = {}

    def get(self, key: str) -> bytes | None:
        """Return a key's value as this step sees it."""
        if key in self.changes:
            return self.changes[key]
        return self._before.get(key)

    def put(self, key: str, value: bytes) -> None:
        """Write a value."""
        self.changes[key] = value

    def remove(self, key: str) -> None:
        """Remove a key; one that this step has made is as if it had never been."""
        if self._before.get(key) is None:
            self.changes.pop(key, None)
        else:
            self.changes[key] = None
