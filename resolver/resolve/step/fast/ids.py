"""Fast ids of a queue: which are to be revoked, and which are.

The step only wishes: the driver fences an id's producer, and then stores the record that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from ..state.head import SEGMENT, Head
from ..state.store import Store

_Array = npt.NDArray[Any]

#: Op offset and time (ms) that never come, and the deadline of a half that waits for its id.
NEVER = int(np.iinfo(np.int64).max)
#: Most ids that a step asks to revoke, and most revocations that are remembered. Forgetting one
#: only costs another.
_MOST_IDS = 1_000
#: Rows that one step looks at because their ids are revoked.
WINDOW = 65_536
_KEY = "fast"


class FastIds:
    """The fast ids that are known in a queue.

    - `wanted`: the segments of the halves that wait for an id's revocation; oldest wish first.
    - `lost_until`: halves stored up to here (ms) may have ended by ops that were deleted before
      they were read. None if there are none; `NEVER` while no op record has been read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._before = store.get(_KEY)
        self.wanted: dict[str, list[int]] = {}
        self.lost_until: int | None = None
        #: The time of the batch that read an id's last revocation, the oldest first.
        self._revoked: dict[str, int] = {}
        #: Segments of halves whose id is revoked, which no step has looked at since.
        self._freed: list[int] = []
        #: The op offset of this batch from which on an id is revoked.
        self._since: dict[str, int] = {}
        if self._before is not None:
            self.wanted, self._revoked, self._freed, self.lost_until = msgpack.unpackb(self._before)

    def note_lost(
        self, head: Head, ops_start: int, first_op_ms: int | None, is_rebuild: bool
    ) -> None:
        """Note whether ops were lost before they were read, given the first op record of all.

        Only the first batch of all begins at offset 0, or where the partition began. A rebuild may
        follow a loss anywhere: the partition was made again, or has lost its last records.
        """
        is_first = head.next_op == head.behind == 0 and self.lost_until is None
        if is_first and is_rebuild:
            self.lost_until = head.now
        elif is_first and ops_start > 0:
            self.lost_until = NEVER
        if self.lost_until == NEVER and first_op_ms is not None:
            self.lost_until = first_op_ms

    def take(self, head: Head, revoked: Iterable[str]) -> list[int]:
        """Return the segments of halves that are free, if this step revokes these ids."""
        self._freed = [segment for segment in self._freed if segment in head.pending]
        freed = [segment for fast_id in revoked for segment in self.wanted.get(fast_id, [])]
        taken, rows = [], 0
        for segment in dict.fromkeys(self._freed + freed):
            if rows < WINDOW:
                taken.append(segment)
                rows += head.pending[segment].halves
        return taken

    def revoke(self, revoked: Mapping[str, int], now: int) -> None:
        """Take ids as revoked, each from an op offset on."""
        for fast_id, offset in sorted(revoked.items(), key=lambda item: item[1]):
            self._freed += self.wanted.pop(fast_id, [])
            if self._revoked.pop(fast_id, None) is None:
                self._since[fast_id] = offset
            self._revoked[fast_id] = now

    def revoked_since(self, ids: list[str]) -> _Array:
        """Return the op offset behind which each id is revoked: -1 for all, `NEVER` for none."""
        since = [
            self._since.get(fast_id, -1) if fast_id in self._revoked else NEVER for fast_id in ids
        ]
        return np.array(since, np.int64)

    def want(self, wishes: dict[str, set[int]], looked_at: set[int]) -> None:
        """Take the wishes of the segments that were looked at, by id, in place of former ones."""
        for fast_id, segments in list(self.wanted.items()):
            still_wanted = wishes.pop(fast_id, set()) | (set(segments) - looked_at)
            if still_wanted:
                self.wanted[fast_id] = sorted(still_wanted)
            else:
                del self.wanted[fast_id]
        self.wanted |= {fast_id: sorted(segments) for fast_id, segments in wishes.items()}

    def to_revoke(self) -> tuple[str, ...]:
        """Return the ids that are to be revoked next, the oldest wish first."""
        return tuple(islice(self.wanted, _MOST_IDS))

    def look_again(self, segments: set[int], looked_at: set[int]) -> None:
        """Note the segments to look at again, of those that were looked at."""
        remaining = [segment for segment in dict.fromkeys(self._freed) if segment not in looked_at]
        self._freed = remaining + sorted(segments)

    @property
    def has_freed(self) -> bool:
        """Whether halves whose id is revoked are still to be looked at."""
        return bool(self._freed)

    def forget(self, now: int, reserved_ms: int) -> None:
        """Forget revocations that are too old, or too many."""
        recent = [
            (fast_id, revoked_at)
            for fast_id, revoked_at in self._revoked.items()
            if now - revoked_at <= reserved_ms
        ]
        self._revoked = dict(recent[-_MOST_IDS:])

    def save(self) -> None:
        """Write what is known, if anything is."""
        known = (self.wanted, self._revoked, self._freed, self.lost_until)
        if not any(known[:3]) and self.lost_until is None:
            if self._before is not None:
                self._store.remove(_KEY)
            return
        packed = msgpack.packb(known)
        if packed != self._before:
            self._store.put(_KEY, packed)


def segments_of(offsets: _Array) -> set[int]:
    """Return the segments of half offsets."""
    return set(np.unique(offsets // SEGMENT).tolist())
