"""Cutting one history differently, where no deadline falls between the cuts.

Precisely: no deadline falls within a *stretch* of batches, no group is back, and no fast half
becomes free, whose deadline may have passed. That is, no half that is pending at its start or
arrives within it has, then, a deadline below the queue's watermark at the stretch's end. The waits
of a group that is back end in the batch that follows. Within a stretch nothing is checked or given
up however it is cut. So the halves and the ops of a stretch may be read in any other batches, each
topic in its order, halves before ops or after. A batch in which a deadline does fall stays as it
was. Rules that change from batch to batch are off (`calm`), and ops that name halves which are not
there yet are left out: how long they wait depends on the cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile
from random import Random

from .driver import next_plan, told
from .histories import NEVER_MS
from .model import Model, immunity_of, is_ahead
from .records import Batch, History, Sent
from .vocabulary import QUEUE, Ends, Plan, Revoked, Rules

#: Batches after a stretch in which ops that were left are read: four times as many each time.
_RESTS = 5


def calm(history: History, timeout_ms: int | None) -> History:
    """Return the history without what would tell two cuts apart.

    Ops come no sooner than the halves that they wait for, so none is ever left.
    """
    rules = replace(
        history.batches[0][1],
        reject_transaction_message=False,
        file_reserved_ms=NEVER_MS * 10,
        max_checks=10**6,
        max_output_bytes=10**9,
        max_ops=10**6,
    )
    if timeout_ms is not None:
        rules = replace(rules, transaction_timeout_ms=timeout_ms)
    batches: list[tuple[Batch, Rules]] = []
    ops: list[Sent] = []
    start = history.batches[0][0].plan.ops_start
    for batch, _ in history.batches:
        ops += sorted(op for op in batch.ops if op.offset not in history.guessed)
        come = list(takewhile(lambda op: not is_ahead(op.op_read, batch.plan, 0), ops))  # noqa: B023
        ops = ops[len(come) :]
        end = ops[0].offset if ops else batch.plan.ops_end
        plan = batch.plan._replace(ops_start=start, ops_end=end)
        batches.append((replace(batch, plan=plan, ops=come), rules))
        start = end
    return History(batches)


@dataclass
class Stretch:
    """Batches that may be cut in another way, or one in which a deadline falls."""

    batches: list[Batch] = field(default_factory=list)
    deadlines: list[int] = field(default_factory=list)
    whole: bool = False


def stretches(history: History) -> list[Stretch]:
    """Divide a history by the definition above, each stretch as long as it can be."""
    model, found, current = Model(QUEUE), [], Stretch()
    for batch, rules in history.batches:
        returned = bool(model.returned)
        before = [row.deadline_ms for row in model.pending.values()]
        arriving = [_deadline(sent, rules) for sent in batch.halves]
        watermark = told(model, batch, rules).watermark_ms or 0
        alone = [d for d in (*before, *arriving) if d is not None]
        together = current.deadlines + alone
        returned = returned or bool(model.returned) or any(map(_frees, batch.ops))
        if returned or any(deadline < watermark for deadline in together):
            found.append(current)
            current = Stretch()
            together = alone
        current.batches.append(batch)
        current.deadlines = together
        if returned or any(deadline < watermark for deadline in alone):
            found.append(replace(current, whole=True))
            current = Stretch()
    return [stretch for stretch in (*found, current) if stretch.batches]


def _frees(sent: Sent) -> bool:
    says = sent.op_read.says
    return isinstance(says, Revoked) or (isinstance(says, Ends) and not says.fast)


def _deadline(sent: Sent, rules: Rules) -> int | None:
    half = sent.half_read.half
    return None if half is None else sent.stored_at_ms + immunity_of(half, rules)


def recut(history: History, random: Random) -> History:
    """Return the same history, its stretches cut at other places."""
    rules = history.batches[0][1]
    batches: list[Batch] = []
    start = history.batches[0][0].plan.ops_start
    before = Plan(0, start, start)
    for stretch in stretches(history):
        batches += stretch.batches if stretch.whole else _cut(stretch.batches, before, random)
        before = stretch.batches[-1].plan
    return History([(batch, rules) for batch in batches])


def _cut(batches: list[Batch], before: Plan, random: Random) -> list[Batch]:
    halves = sorted((s for batch in batches for s in batch.halves), key=lambda sent: sent.offset)
    ops = sorted((s for batch in batches for s in batch.ops), key=lambda sent: sent.offset)
    now_ms = max(batch.now_ms for batch in batches)
    pieces = random.randint(1, 2 + len(halves) + len(ops))
    cut: list[Batch] = []
    last = batches[-1].plan
    for half_piece, op_piece in zip(
        _pieces(halves, pieces, random), _pieces(ops, pieces, random), strict=True
    ):
        before = next_plan(before, half_piece, op_piece)
        cut.append(Batch(now_ms, before, half_piece, op_piece))
    cut[-1] = replace(cut[-1], plan=last._replace(ops_start=before.ops_start))
    return cut + [Batch(now_ms, last._replace(ops_start=last.ops_end))] * _RESTS


def _pieces(rows: list[Sent], count: int, random: Random) -> list[list[Sent]]:
    cuts = sorted(random.randint(0, len(rows)) for _ in range(count - 1))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
