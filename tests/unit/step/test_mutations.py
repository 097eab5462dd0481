"""Each of these mistakes in the step is noticed by the comparison with the model.

The list is kept here: a substitution whose old text is gone fails, and has to be adapted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .altered import Change, altered_step
from .driver import check_history
from .histories import numbered

#: Histories that a mutation may survive at most; the same ones each time.
BOUND = 500

MUTATIONS = [
    Change(
        "judge.py",
        "candidates = np.flatnonzero(valid)",
        "candidates = np.flatnonzero(valid)[::-1]",
        "the last end of a batch wins, not the first",
    ),
    Change(
        "op_elements.py",
        "np.lexsort((position, offsets))",
        "np.lexsort((position, -offsets))",
        "ops apply in another order than the op topic's",
    ),
    Change(
        "left_ops.py",
        "(elements.half_offset >= plan.halves_end) &",
        "(elements.half_offset > plan.halves_end) &",
        "an op of the very next half is refused instead of waiting",
    ),
    Change(
        "left_ops.py",
        "& (op_offset >= head.proved)",
        "",
        "an op with a made-up offset holds up all behind it",
    ),
    Change(
        "left_ops.py",
        "& (op_offset >= head.proved)",
        "& (op_offset > head.proved)",
        "a fence refutes the first op behind those that it names",
    ),
    Change(
        "step.py",
        "fence_ops = plan.ops_end if waits else None",
        "fence_ops = plan.ops_end + 1 if waits else None",
        "a fence is asked for that names an op which may not be stored yet",
    ),
    Change(
        "left_ops.py",
        "again = end - start if waits else 1",
        "again = 1",
        "of ops that wait for their halves only a few are read again",
    ),
    Change(
        "faults.py",
        "self.transaction[on_pending] = elements.ids[on_pending] != pending.ids[row]",
        "self.transaction[on_pending] = False",
        "anybody in the group can end a transaction, without its id",
    ),
    Change(
        "faults.py",
        'plain & (rows["immunity"] > 0) & (stored_at > latest)',
        "plain & (stored_at > latest)",
        "halves without an immunity of their own refuse late ends too",
    ),
    Change(
        "check_answers.py",
        '(asked["checks"] > 0) & ~used_up(asked, settings)',
        "~used_up(asked, settings)",
        "an operator's question comes within the immunity",
    ),
    Change(
        "check_answers.py",
        "~used_up(asked, settings) & ~expired(asked, head, settings)",
        "True",
        "an operator's question has a half given up before its answer was waited for",
    ),
    Change(
        "step.py",
        "newly_back = _announced(applied) + judged.newly_back",
        "newly_back = judged.newly_back",
        "an agent's announcement does nothing",
    ),
    Change(
        "check_answers.py",
        'unanswered(pending.rows["streak"][answered]) > 0',
        'unanswered(pending.rows["streak"][answered]) > 99',
        "a group that answers again waits for its other checks all the same",
    ),
    Change(
        "checks.py",
        'rows["asked"] & (rows["streak"] >= 0)',
        'rows["asked"]',
        "a flood of announcements is a flood of checks",
    ),
    Change(
        "checks.py",
        "pending.alive & ~silent & is_back",
        "pending.alive & ~silent",
        "an announcement asks all groups",
    ),
    Change(
        "checks.py",
        "waits &= ~used_up(rows, settings) & ~expired(rows, head, settings)",
        "",
        "a half is asked about that is only to be given up",
    ),
    Change(
        "checks.py",
        "if not groups or settings.count_unanswered_checks or head.watermark is None:",
        "if not groups or head.watermark is None:",
        "announcements use up checks that count",
    ),
    Change(
        "checks.py",
        'waits &= rows["deadline"] >= head.watermark',
        "",
        "a half that is due has two checks at once",
    ),
    Change(
        "step.py",
        "parts.save(newly_back, checked.has_unasked,",
        "parts.save(newly_back, False,",
        "halves of a group that is back are forgotten where a batch's limit is reached",
    ),
    Change(
        "checks.py",
        'np.maximum(rows["deadline"][extra], answer_at)',
        'rows["deadline"][extra]',
        "an extra check may be followed by a regular one at once",
    ),
    Change(
        "intake.py",
        "kept = [record for record in self.records if record.offset < offset]",
        "kept = self.records",
        "ops that are left count as read: their malformed elements, the watermark",
    ),
    Change(
        "intake.py",
        "self.elements.take(self.elements.op_index < op_index)",
        "self.elements",
        "ops that are left are applied all the same",
    ),
    Change(
        "left_ops.py",
        "op_records[applied].offset if applied < len(op_records) else end",
        "end",
        "ops that are left are forgotten",
    ),
    Change(
        "checks.py",
        "total = np.cumsum(sizes[fair])",
        "total = np.zeros(len(fair))",
        "the messages that checks carry may be as large as they like",
    ),
    Change(
        "judge.py",
        "repeated = (known != NONE) & (state == known & OUTCOME)",
        "repeated = (known != NONE) & (state != NONE)",
        "a conflicting end is counted as a duplicate",
    ),
    Change(
        "step.py",
        "max(times if head.watermark is None else [head.watermark, *times], default=None)",
        "max(times, default=head.watermark)",
        "the watermark falls with a broker's clock",
    ),
    Change(
        "intake.py",
        "    if is_fence(value, headers):\n        return DecodedOp(offset, stored_at, None, [])\n",
        "",
        "fences are refused",
    ),
    Change(
        "pending.py",
        "refused, fast = self._refused(offsets)",
        "refused, fast = {}",
        "a refused half whose end comes later is delivered",
    ),
    Change(
        "judge.py",
        "if refusal and outcome is Outcome.COMMIT and not by_producer:",
        "if refusal and not by_producer:",
        "a refused half that rolls back is undeliverable",
    ),
    Change(
        "intake.py",
        "refusals[half.group, half.topic]",
        '""',
        "what the policy refuses is delivered",
    ),
    Change(
        "checks.py",
        'pending.alive & (pending.rows["deadline"] < head.watermark)',
        'pending.alive & (pending.rows["deadline"] < head.now)',
        "the clock decides what is due, not the watermark",
    ),
    Change(
        "checks.py",
        "counted >= settings.transaction_check_max",
        "counted > settings.transaction_check_max",
        "one check too many",
    ),
    Change(
        "checks.py",
        "by_checks | (asked_once & expired(",
        "by_checks | (expired(",
        "what nobody was asked about expires",
    ),
    Change(
        "checks.py",
        "start = max(head.watermark or 0, head.now)",
        "start = head.watermark or 0",
        "the next check is due too soon after a pause",
    ),
    Change(
        "checks.py",
        "(start + wait) // half * half",
        "start + wait",
        "unanswered checks do not go out together",
    ),
    Change(
        "check_answers.py",
        'pending.rows["streak"][answered] = 0',
        "pass",
        "an answer does not end the backing off",
    ),
    Change(
        "check_answers.py",
        'asked = pending.rows["asked"][rows]',
        "asked = np.ones(len(rows), np.bool_)",
        "an answer to no check counts",
    ),
    Change(
        "checks.py",
        'np.argsort(_rank_within(pending.groups[due]), kind="stable")',
        "np.arange(len(due))",
        "a group with many overdue halves holds up the others",
    ),
    Change(
        "state/settled.py",
        "and head.settled_from not in head.pending:",
        "and True:",
        "outcomes are forgotten below what is pending",
    ),
    Change(
        "state_parts.py",
        "head.now = max(head.now, now_ms)",
        "head.now = now_ms",
        "time runs backwards",
    ),
    Change(
        "intake.py",
        "decode_revoked(record.value, queue, fence_secret)",
        "(record.value or b'').decode().split('\"')[3]",
        "anybody's record revokes an id",
    ),
    Change(
        "fast/ids.py",
        "self._since.get(fast_id, -1) if fast_id in self._revoked",
        "-1 if fast_id in self._revoked",
        "an id is revoked for ops before the record",
    ),
    Change(
        "step.py",
        "fast_ids.revoke(_revoked(applied), head.now)",
        "fast_ids.revoke(_revoked(decoded), head.now)",
        "a revocation counts though ops before it are left",
    ),
    Change(
        "fast/ids.py",
        "            if now - revoked_at <= reserved_ms\n",
        "",
        "revocations are remembered for good",
    ),
    Change(
        "faults.py",
        "elements.each(is_by_application, np.bool_)[on_pending] & ~is_fast[on_pending]",
        "elements.each(is_by_application, np.bool_)[on_pending]",
        "a delivered op comes too late",
    ),
    Change(
        "judge.py",
        "outcome is Outcome.COMMIT and not by_producer:",
        "outcome is Outcome.COMMIT:",
        "what is delivered is undeliverable by the policy",
    ),
    Change(
        "left_ops.py",
        "sizes[elements.each(lambda stored_op: stored_op.op.delivered, np.bool_)] = 0",
        "",
        "delivered ops are left as too much",
    ),
    Change(
        "faults.py",
        "self.twice[on_pending] &= pending.fast.id[row] == 0",
        "self.twice[on_pending] = False",
        "a delivered op ends a half that names no fast id",
    ),
    Change(
        "refusals.py",
        "twice = done & is_fast & (known & FAST == 0)",
        "twice = done & is_fast & False",
        "a message that is out twice is a duplicate",
    ),
    Change(
        "refusals.py",
        "twice = done & is_fast & (known & FAST == 0)",
        "twice = done & is_fast",
        "a fast end that is read again is refused",
    ),
    Change(
        "state/settled.py",
        "return outcomes + bytes(np.packbits(fast).tobytes()) if fast.any() else outcomes",
        "return outcomes",
        "which ends were fast is known in their batch alone",
    ),
    Change(
        "state/settled.py",
        "codes | np.array(fast, np.uint8) * np.uint8(FAST)",
        "codes",
        "a rebuild takes fast ends for others",
    ),
    Change(
        "fast/waiting_ends.py",
        "waits = turns.valid & ~turns.at_once & (op_offset <= free[turns.row])",
        "waits = np.zeros(len(turns.elements), np.bool_)",
        "no end waits for a revocation",
    ),
    Change(
        "fast/waiting_ends.py",
        "at_once = is_fast | elements.each(_withdraws, np.bool_)",
        "at_once = is_fast",
        "the application's rollback waits",
    ),
    Change(
        "fast/waiting_ends.py",
        "ROLLBACK_MESSAGE and is_by_application(stored_op)",
        "ROLLBACK_MESSAGE",
        "the rollback of an agent or operator does not wait",
    ),
    Change(
        "fast/waiting_ends.py",
        "elif turns.valid[index] and (turns.is_fast[index] or waits == _NONE):",
        "elif turns.valid[index]:",
        "the last end that waits wins, not the first",
    ),
    Change(
        "fast/waiting_ends.py",
        "elif turns.valid[index] and (turns.is_fast[index] or waits == _NONE):",
        "elif turns.valid[index] and waits == _NONE:",
        "a message is delivered again where a plain end was stored before the fast one",
    ),
    Change(
        "fast/waiting_ends.py",
        "    if winner not in (_NONE, waits) and waits != _NONE:\n"
        "        turns.after[waits] = winner\n"
        "        turns.overtaken[waits] = True\n",
        "",
        "an end that waited for nothing is not judged",
    ),
    Change(
        "fast/waiting_ends.py",
        "postponed = _too_much(winners, waited, turns.row, pending, settings)",
        "postponed: set[int] = set()",
        "a revocation releases more messages than a batch may take",
    ),
    Change(
        "fast/holding.py",
        'segments_of(pending.rows["offset"][has_end & is_free])',
        "set()",
        "ends that were too much for a batch are not looked at again",
    ),
    Change(
        "fast/halves.py",
        "waiting = [self.waiting[offset] for offset in offsets if offset in self.waiting]",
        "waiting: list[Any] = []",
        "an end that waits is forgotten",
    ),
    Change(
        "fast/waiting_ends.py",
        "pending.fast.gave_up[turns.row[turns.gives_up]] = True",
        "pass",
        "giving up to commit fast does nothing",
    ),
    Change(
        "fast/halves.py",
        "gave_up = np.flatnonzero(self.gave_up[rows]).tolist()",
        "gave_up: list[int] = []",
        "giving up to commit fast is forgotten",
    ),
    Change(
        "fast/waiting_ends.py",
        "gives_up = (row >= 0) & names_its_half &",
        "gives_up = (row >= 0) &",
        "strangers give up for others",
    ),
    Change(
        "fast/holding.py",
        "(~is_free | is_lost | has_end)",
        "(is_lost | has_end)",
        "a half is asked about while its producer may commit it",
    ),
    Change(
        "fast/holding.py",
        "(~is_free | is_lost | has_end)",
        "(~is_free | has_end)",
        "a half is asked about whose end may be lost",
    ),
    Change(
        "fast/holding.py",
        'rows["deadline"][freed] = rows["stored_at"][freed] + own[freed]',
        "pass",
        "a half that was held is never due again",
    ),
    Change(
        "step.py",
        "deadline = None if deadline == NEVER else deadline",
        "pass",
        "held halves have a time to wake",
    ),
    Change(
        "fast/holding.py",
        "waits & (has_end | ~lost(pending, fast_ids))",
        "waits",
        "ids are wanted of halves that nobody is to be asked about",
    ),
    Change(
        "fast/ids.py",
        "(set(segments) - looked_at)",
        "set(segments)",
        "ids are wanted for halves that have ended",
    ),
    Change(
        "fast/ids.py",
        "elif is_first and ops_start > 0",
        "elif False",
        "lost ops are not noticed",
    ),
    Change(
        "fast/ids.py",
        "is_first and is_rebuild",
        "False",
        "a rebuild takes all ops for read",
    ),
    Change(
        "fast/ids.py",
        "head.next_op == head.behind == 0 and",
        "head.next_op == 0 and",
        "ops that were only left count as lost",
    ),
    Change(
        "faults.py",
        "~is_fast & ~by_operator",
        "~is_fast",
        "not even an operator ends a half whose end may be lost",
    ),
    Change(
        "faults.py",
        "self.names_its_half & ~self.late & ~is_fast &",
        "self.names_its_half & ~self.late &",
        "the producer can't end a half whose end may be lost",
    ),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda change: change.breaks)
def test_the_comparison_notices(mutation: Change, tmp_path: Path) -> None:
    with altered_step([mutation], tmp_path) as mutated:
        for number in range(BOUND):
            try:
                check_history(numbered(number), mutated, rebuilt=number % 4 == 3)
            except AssertionError:
                return
    pytest.fail(f"{BOUND} histories did not notice: {mutation.breaks}")


def test_an_unaltered_copy_agrees(tmp_path: Path) -> None:
    """So what is noticed above is the mutation, not the copying."""
    with altered_step([], tmp_path) as copied:
        for number in range(BOUND):
            check_history(numbered(number), copied, rebuilt=number % 4 == 3)


def test_a_mutation_that_no_longer_fits_the_source_fails(tmp_path: Path) -> None:
    gone = Change("step.py", "no such line", "", "nothing")
    with pytest.raises(AssertionError, match="adapt this list"):
        altered_step([gone], tmp_path).__enter__()
