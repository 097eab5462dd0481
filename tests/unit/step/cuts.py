"""Cutting one history differently, where no deadline falls between the cuts.

Precisely: a *stretch* is a run of batches such that no half that is pending at its start or arrives
within it has, then, a deadline below the queue's watermark at the stretch's end. Within a stretch
nothing is checked or given up however it is cut, so the halves and the ops of a stretch may be read
in any other batches, each topic in its order, halves before ops or after. A batch in which a
deadline does fall stays as it was. Rules that look at how far one topic is ahead of the other, or
that change from batch to batch, are off (`calm`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from .driver import QUEUE, told
from .histories import NEVER_MS
from .model import Model, immunity_of
from .records import Batch, History, Sent
from .vocabulary import Rules


def calm(history: History, timeout_ms: int | None) -> History:
    """Return the history without what would tell two cuts apart: limits and changes of rules."""
    rules = replace(
        history.batches[0][1],
        reject_transaction_message=False,
        file_reserved_ms=NEVER_MS * 10,
        broker_clock_skew_ms=NEVER_MS * 10,
        max_waiting_ops=10**6,
        max_checks=10**6,
        max_output_bytes=10**9,
    )
    if timeout_ms is not None:
        rules = replace(rules, transaction_timeout_ms=timeout_ms)
    return History([(batch, rules) for batch, _ in history.batches])


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
        before = [row.deadline_ms for row in model.pending.values()]
        arriving = [_deadline(sent, rules) for sent in batch.halves]
        watermark = told(model, batch, rules).watermark_ms or 0
        alone = [d for d in (*before, *arriving) if d is not None]
        together = current.deadlines + alone
        if any(deadline < watermark for deadline in together):
            found.append(current)
            current = Stretch()
            together = alone
        current.batches.append(batch)
        current.deadlines = together
        if any(deadline < watermark for deadline in alone):
            found.append(replace(current, whole=True))
            current = Stretch()
    return [stretch for stretch in (*found, current) if stretch.batches]


def _deadline(sent: Sent, rules: Rules) -> int | None:
    half = sent.means.half
    return None if half is None else sent.stored_at_ms + immunity_of(half, rules)


def recut(history: History, random: Random) -> History:
    """Return the same history, its stretches cut at other places."""
    rules = history.batches[0][1]
    batches: list[Batch] = []
    for stretch in stretches(history):
        batches += stretch.batches if stretch.whole else _cut(stretch.batches, random)
    return History([(batch, rules) for batch in batches])


def _cut(batches: list[Batch], random: Random) -> list[Batch]:
    halves = sorted((s for batch in batches for s in batch.halves), key=lambda sent: sent.offset)
    ops = sorted((s for batch in batches for s in batch.ops), key=lambda sent: sent.offset)
    now_ms = max(batch.now_ms for batch in batches)
    pieces = random.randint(1, 2 + len(halves) + len(ops))
    return [
        Batch(now_ms, half_piece, op_piece)
        for half_piece, op_piece in zip(
            _pieces(halves, pieces, random), _pieces(ops, pieces, random), strict=True
        )
    ]


def _pieces(rows: list[Sent], count: int, random: Random) -> list[list[Sent]]:
    cuts = sorted(random.randint(0, len(rows)) for _ in range(count - 1))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
