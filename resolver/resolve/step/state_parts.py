"""The parts of a queue's state: loaded when a batch begins, and written once at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .fast.ids import FastIds
from .pending import Pending
from .queue import Queue
from .returned import Returned
from .settled import Settled
from .store import Changes, Store


class StateParts(NamedTuple):
    """The parts of one queue's state, all over the same store."""

    store: Store
    head: Queue
    settled: Settled
    pending: Pending
    fast_ids: FastIds
    returned: Returned

    @classmethod
    def load(
        cls, state: Mapping[str, bytes], queue: int, now_ms: int, topic_prefix: str
    ) -> StateParts:
        """Load the parts; halves and outcomes are read later, as far as the batch needs them.

        `now_ms` becomes the batch's clock, which never falls.
        """
        store = Store(state)
        head = Queue.load(store, queue)
        head.now = max(head.now, now_ms)
        settled = Settled(store, head)
        pending = Pending(store, head, topic_prefix)
        return cls(store, head, settled, pending, FastIds(store), Returned(store))

    def save(self, returned_groups: list[str], left: bool, reserved_ms: int) -> Changes:
        """Write all parts; return the state's changes.

        Revocations and outcomes that are older than `reserved_ms` are forgotten.

        `returned_groups` came back in this batch. `left` says that halves of groups that came back
        earlier are left to ask about. The pending halves are saved first: `Returned.add` and
        `Settled.forget` ask the head which segments have some.
        """
        head = self.head
        self.pending.save()
        self.fast_ids.forget(head.now, reserved_ms)
        self.fast_ids.save()
        self.returned.add(returned_groups, head, left)
        self.returned.save()
        self.settled.save(head.now)
        self.settled.forget(head.now, reserved_ms)
        head.save(self.store)
        return self.store.changes
