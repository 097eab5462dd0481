"""The parts of a queue's state: loaded when a batch begins, and written once at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .fast.ids import FastIds
from .pending import Pending
from .state.groups_back import GroupsBack
from .state.head import Head
from .state.settled import Settled
from .state.store import Changes, Store


class StateParts(NamedTuple):
    """The parts of one queue's state, all over the same store."""

    store: Store
    head: Head
    settled: Settled
    pending: Pending
    fast_ids: FastIds
    groups_back: GroupsBack

    @classmethod
    def load(
        cls, state: Mapping[str, bytes], queue: int, now_ms: int, topic_prefix: str
    ) -> StateParts:
        """Load the parts; halves and outcomes are read later, as far as the batch needs them.

        `now_ms` becomes the batch's clock, which never falls.
        """
        store = Store(state)
        head = Head.load(store, queue)
        head.now = max(head.now, now_ms)
        settled = Settled(store, head)
        pending = Pending(store, head, topic_prefix)
        return cls(store, head, settled, pending, FastIds(store), GroupsBack(store))

    def save(self, newly_back: list[str], has_unasked: bool, reserved_ms: int) -> Changes:
        """Write all parts; return the state's changes.

        `newly_back` has the groups that came back in this batch. `has_unasked` says that halves of
        groups that came back earlier still wait for their extra check. Revocations and outcomes
        that are older than `reserved_ms` are forgotten.

        The pending halves are saved first: `GroupsBack.add` and `Settled.forget` ask the head which
        segments have some.
        """
        head = self.head
        self.pending.save()
        self.fast_ids.forget(head.now, reserved_ms)
        self.fast_ids.save()
        self.groups_back.add(newly_back, head, has_unasked)
        self.groups_back.save()
        self.settled.save(head.now)
        self.settled.forget(head.now, reserved_ms)
        head.save(self.store)
        return self.store.changes
