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
BOUND = 300

MUTATIONS = [
    Change(
        "judge.py",
        "candidates = np.flatnonzero(valid)",
        "candidates = np.flatnonzero(valid)[::-1]",
        "the last end of a batch wins, not the first",
    ),
    Change(
        "ends.py",
        "np.lexsort((position, offsets))",
        "np.lexsort((position, -offsets))",
        "ops apply in another order than the op topic's",
    ),
    Change(
        "step.py",
        "(ends.half >= plan.halves_end) &",
        "(ends.half > plan.halves_end) &",
        "an op of the very next half is refused instead of waiting",
    ),
    Change(
        "step.py",
        "& (ends.half < plan.halves_known)",
        "",
        "an op with a made-up offset holds up all behind it",
    ),
    Change(
        "step.py",
        "again = ops_read[1] - ops_read[0] if len(with_halves.read) < len(decoded.read) else 1",
        "again = 1",
        "of ops that wait for their halves only a few are read again",
    ),
    Change(
        "judge.py",
        "self.transaction[found] = ends.ids[found] != pending.ids[row[found]]",
        "self.transaction[found] = False",
        "anybody in the group can end a transaction, without its id",
    ),
    Change(
        "judge.py",
        'plain & (rows["immunity"] > 0) & (stored_at > latest)',
        "plain & (stored_at > latest)",
        "halves without an immunity of their own refuse late ends too",
    ),
    Change(
        "step.py",
        "kept = [one for one in self.read if one.offset < offset]",
        "kept = self.read",
        "ops that are left count as read: their malformed elements, the watermark",
    ),
    Change(
        "step.py",
        "self.ends.take(self.ends.op < op)",
        "self.ends",
        "ops that are left are applied all the same",
    ),
    Change(
        "step.py",
        "head.next_op = given[len(read)].offset if len(read) < len(given) else ops_read[1]",
        "head.next_op = ops_read[1]",
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
        "repeated = done & (state == code)",
        "repeated = done & (state != NONE)",
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
        "    if is_fence(value, headers):\n        return ReadOp(offset, stored_at, None, [])\n",
        "",
        "fences are refused",
    ),
    Change(
        "permissions.py",
        "self._limits.get(group, self._limits.get(ANY))",
        "self._limits.get(group)",
        "a group without a section may publish to any topic, whatever all others may",
    ),
    Change(
        "checks.py",
        'pending.alive & (pending.rows["deadline"] < queue.watermark)',
        'pending.alive & (pending.rows["deadline"] < queue.now)',
        "the clock decides what is due, not the watermark",
    ),
    Change(
        "checks.py",
        "used_up = asked_once & (counted >= settings.transaction_check_max)",
        "used_up = asked_once & (counted > settings.transaction_check_max)",
        "one check too many",
    ),
    Change(
        "checks.py",
        "expired = asked_once & (",
        "expired = (",
        "what nobody was asked about expires",
    ),
    Change(
        "checks.py",
        "start = max(queue.watermark or 0, queue.now)",
        "start = queue.watermark or 0",
        "the next check is due too soon after a pause",
    ),
    Change(
        "judge.py",
        'pending.rows["streak"][answered] = 0',
        "pass",
        "an answer does not end the backing off",
    ),
    Change(
        "judge.py",
        'answered = np.unique(rows[pending.rows["asked"][rows]])',
        "answered = np.unique(rows)",
        "an answer to no check counts",
    ),
    Change(
        "checks.py",
        'np.argsort(_rank_within(pending.groups[due]), kind="stable")',
        "np.arange(len(due))",
        "a group with many overdue halves holds up the others",
    ),
    Change(
        "settled.py",
        "and queue.settled_from not in queue.pending:",
        "and True:",
        "outcomes are forgotten below what is pending",
    ),
    Change(
        "step.py",
        "head.now = max(head.now, now_ms)\n    settled = Settled(store, head)\n    pending",
        "head.now = now_ms\n    settled = Settled(store, head)\n    pending",
        "time runs backwards",
    ),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda change: change.breaks)
def test_the_comparison_notices(mutation: Change, tmp_path: Path) -> None:
    with altered_step([mutation], tmp_path) as mutated:
        for number in range(BOUND):
            try:
                check_history(numbered(number), mutated)
            except AssertionError:
                return
    pytest.fail(f"{BOUND} histories did not notice: {mutation.breaks}")


def test_an_unaltered_copy_agrees(tmp_path: Path) -> None:
    """So what is noticed above is the mutation, not the copying."""
    with altered_step([], tmp_path) as copied:
        for number in range(BOUND):
            check_history(numbered(number), copied)


def test_a_mutation_that_no_longer_fits_the_source_fails(tmp_path: Path) -> None:
    gone = Change("step.py", "no such line", "", "nothing")
    with pytest.raises(AssertionError, match="adapt this list"):
        altered_step([gone], tmp_path).__enter__()
