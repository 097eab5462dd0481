"""The pure step: one queue, one batch, in the order of the rules (docs/protocol.md, section 6).

It has no clock and no Spark inside: the same state and input give the same decisions at any time.

In the order of a batch: `intake.py` decodes the records, and `op_elements.py` lines up the elements
of ops. `judge.py` judges them: a half's first valid end wins. Until its end comes, a half waits in
the queue's state: `pending.py`.

Beside that, `left_ops.py` leaves ops whose halves were not read yet, and ops whose messages exceed
a batch's limit. `faults.py` and `refusals.py` say which ends count for nothing. `checks.py` asks
about overdue halves, or gives them up.

`state_parts.py` loads the queue's state, and saves it at the end. The package `state` has parts of
it. `pending.py` and `fast` encode their own parts. Only fast halves need the package `fast`.

Next station: `resolver/resolve/delivery/packed.py`, which `processor.py` calls, makes records of
the decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...protocol import Refused, StoredRecord
from .checks import Checked, check_overdue, overdue_segments
from .decisions import QueueDecisions
from .fast.holding import note_wishes
from .fast.ids import NEVER
from .intake import DecodedOps, decode_halves, decode_ops
from .judge import Judged, judge
from .left_ops import first_op_before_its_half, first_op_over_limit, note_left
from .pending import NewHalf, Pending
from .plan import Plan
from .settings import StepSettings
from .state.head import SEGMENT, Head
from .state.store import Changes
from .state_parts import StateParts


def step(
    state: Mapping[str, bytes],
    queue: int,
    plan: Plan,
    halves: Iterable[StoredRecord],
    ops: Iterable[StoredRecord],
    now_ms: int,
    settings: StepSettings,
    fence_secret: str,
    is_rebuild: bool = False,
) -> tuple[Changes, QueueDecisions]:
    """Join a batch's halves and ops; return the changes of the state, and the decisions.

    The caller reads `halves` by the plan and `ops` by `ops_to_read`; any order will do. The last
    ops may be left: the next batch reads them again. Fences of the half partition and revocations
    count if they were made with `fence_secret`. `is_rebuild` counts in a queue's first batch: ops
    about its fast halves may be lost.
    """
    parts = StateParts.load(state, queue, now_ms, settings.topic_prefix)
    _, head, settled, pending, fast_ids, groups_back = parts
    half_records, op_records = sorted(halves), sorted(ops)
    first_op_ms = op_records[0].stored_at_ms if op_records else None
    new, refused = decode_halves(
        half_records, plan.halves_end, head, settled, settings, fence_secret
    )
    fast_ids.note_lost(head, plan.ops_start, first_op_ms, is_rebuild)  # fast halves only

    decoded = DecodedOps.of(decode_ops(op_records, queue, settings, fence_secret))
    with_halves = decoded.before(first_op_before_its_half(decoded.elements, plan, head))
    touched = _touched(new, with_halves, parts)
    pending.load(touched, new)
    applied = with_halves.before(first_op_over_limit(with_halves.elements, pending, settings))
    head.watermark = _watermark(head, applied)
    waits = len(with_halves.records) < len(decoded.records)
    note_left(head, plan, op_records, len(applied.records), waits, settings)

    fast_ids.revoke(_revoked(applied), head.now)  # fast halves only
    judged = judge(applied.elements, pending, settled, fast_ids, head, settings)
    checked = check_overdue(pending, settled, fast_ids, head, settings, groups_back.groups)
    note_wishes(pending, fast_ids, touched)  # fast halves only

    newly_back = _announced(applied) + judged.newly_back
    changes = parts.save(newly_back, checked.has_unasked, settings.file_reserved_ms)
    fence_ops = plan.ops_end if waits else None
    return changes, _decisions(parts, refused, applied, judged, checked, fence_ops)


def _touched(new: list[NewHalf], with_halves: DecodedOps, parts: StateParts) -> set[int]:
    """Return the segments whose halves this batch looks at.

    They have new halves, halves that ops end, overdue halves, halves of groups that are back, or
    halves whose fast id is revoked. Call it once a batch: each call takes the next segments of the
    groups that are back.
    """
    head = parts.head
    touched = {half.stored_half.offset // SEGMENT for half in new}
    touched.update((with_halves.elements.half_offset // SEGMENT).tolist())
    touched.update(overdue_segments(head, _watermark(head, with_halves)))
    touched.update(parts.groups_back.take(head), parts.fast_ids.take(head, _revoked(with_halves)))
    return touched


def _watermark(head: Head, ops: DecodedOps) -> int | None:
    """Return the queue's watermark after these ops, fences and malformed ops too."""
    times = [record.stored_at_ms for record in ops.records]
    return max(times if head.watermark is None else [head.watermark, *times], default=None)


def _revoked(ops: DecodedOps) -> dict[str, int]:
    """Return the ids that are revoked, each with the first op offset that says so."""
    return {record.revoked: record.offset for record in reversed(ops.records) if record.revoked}


def _announced(ops: DecodedOps) -> list[str]:
    """Return the groups of which an agent says that it is there."""
    stored_ops = (record.stored_op for record in ops.records)
    return [stored_op.op.group for stored_op in stored_ops if stored_op and stored_op.op.announces]


def _decisions(
    parts: StateParts,
    refused: list[Refused],
    applied: DecodedOps,
    judged: Judged,
    checked: Checked,
    fence_ops: int | None,
) -> QueueDecisions:
    """Put the decisions together; `refused` are malformed halves.

    Called after the save, which brings `head.pending` up to date.
    """
    head, pending, fast_ids = parts.head, parts.pending, parts.fast_ids
    at_once = bool(parts.groups_back.segments) or fast_ids.has_freed
    return QueueDecisions(
        ended=judged.ended + checked.discards,
        checks=checked.checks,
        refused=refused + sorted(_refused(applied) + judged.refused, key=_op_offset_and_position),
        duplicates=judged.duplicates,
        check_counts=judged.answers + checked.counts,
        wake_at_ms=0 if at_once else _wake_at(pending, head),
        fence_ops=fence_ops,
        watermark_ms=head.watermark,
        pending=sum(entry.halves for entry in head.pending.values()),
        next_op=head.next_op,
        revoke=fast_ids.to_revoke(),
    )


def _refused(ops: DecodedOps) -> list[Refused]:
    return [refused for record in ops.records for refused in record.refused]


def _op_offset_and_position(refused: Refused) -> tuple[int, int]:
    """Return the op offset of a refused op or element, and its position; -1 for a whole op."""
    position = -1 if refused.element is None else refused.element
    return int(refused.source.rpartition(":")[2]), position


def _wake_at(pending: Pending, head: Head) -> int | None:
    """Return the next deadline, in ms; 0 (at once) if ops are left or a half is overdue."""
    deadline = pending.least_deadline()
    deadline = None if deadline == NEVER else deadline
    is_due = deadline is not None and head.watermark is not None and deadline < head.watermark
    return 0 if head.behind or is_due else deadline
