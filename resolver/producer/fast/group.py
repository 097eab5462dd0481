"""The records of a group commit: pure, without a clock and without Kafka."""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol import Names, Record, StoredHalf, TransactionStatus, commit_record
from ..op_pack import Packer, PackKey


def group_records(
    halves: Iterable[StoredHalf], group: str, names: Names, op_max_bytes: int
) -> list[Record]:
    """Return the messages as the resolver would deliver them, then the ops that say so.

    Both keep the order of the halves.
    """
    packer = Packer(group, op_max_bytes, 0.0)
    messages, packs = [], []
    for stored_half in halves:
        messages.append(commit_record(stored_half))
        key = PackKey(stored_half.queue, TransactionStatus.COMMIT_MESSAGE, delivered=True)
        full = packer.add(key, stored_half.offset, stored_half.half.transaction_id, 0.0)
        if full is not None:
            packs.append(full)
    packs += packer.take_all()
    return [*messages, *(pack.to_record(names.op) for pack in packs)]
