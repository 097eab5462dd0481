"""A step's view of a queue's state: read lazily, written once at the end."""

from __future__ import annotations

from collections.abc import Mapping

#: A step's changes of its queue's state: a key's new value, or None to remove the key.
Changes = dict[str, bytes | None]


class Store:
    """The state before the step, overlaid by the step's changes."""

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
        """Remove a key; a key that this step has made leaves no change behind."""
        if self._before.get(key) is None:
            self.changes.pop(key, None)
        else:
            self.changes[key] = None
