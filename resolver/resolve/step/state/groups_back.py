"""Groups that are back: their halves have an extra check, some segments in each step.

A queue may have millions of pending halves. So a step looks at as many of their rows as it looks at
overdue rows, and the next step goes on.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgpack

from .head import Head
from .store import Store

#: Rows that one step looks at.
WINDOW = 65_536
#: Most groups that are remembered: whoever may write ops can make up names without end.
_MOST_GROUPS = 1_000
#: The groups' older name: checkpoints have it.
_KEY = "returned"


class GroupsBack:
    """The groups that are back, and the segments in which their halves were not looked at yet.

    Groups that come back meanwhile wait until all segments have been looked at: otherwise new names
    would have the search begin again and again.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.groups: list[str] = []
        self.segments: list[int] = []
        self._waiting: list[str] = []
        self._taken: list[int] = []
        packed = store.get(_KEY)
        if packed is not None:
            self.groups, self.segments, self._waiting = msgpack.unpackb(packed)

    def take(self, head: Head) -> list[int]:
        """Take out the segments that this step looks at."""
        rows = 0
        while self.segments and rows < WINDOW:
            segment = self.segments.pop(0)
            if segment in head.pending:
                self._taken.append(segment)
                rows += head.pending[segment].halves
        return self._taken

    def add(self, groups: Iterable[str], head: Head, has_unasked: bool) -> None:
        """Remember groups for the next step.

        `has_unasked` says that the limits left out halves of groups that came back earlier: their
        segments are looked at again.
        """
        if has_unasked:
            known = self._taken + self.segments
            newer = [
                segment for segment in sorted(head.pending) if segment > max(known, default=-1)
            ]
            self.segments = known + newer
        new = [group for group in dict.fromkeys(groups) if group not in self._waiting]
        self._waiting = (self._waiting + new)[:_MOST_GROUPS]
        if not self.segments:
            self.groups, self._waiting = self._waiting, []
            self.segments = sorted(head.pending) if self.groups else []

    def save(self) -> None:
        """Write what is left to look at."""
        if self.segments:
            self._store.put(_KEY, msgpack.packb((self.groups, self.segments, self._waiting)))
        else:
            self._store.remove(_KEY)
