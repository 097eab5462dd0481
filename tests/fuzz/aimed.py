"""Ops aimed at halves that were sent: each element with what must become of it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from resolver.protocol import Headers

from .halves import Half
from .ops import BROKEN, TAG, body, written

#: An element's fate: it ends its half, repeats that end, or does nothing yet. Any other fate is the
#: reason for which it is refused.
ENDS, DUPLICATE, NOTHING = "ENDS", "DUPLICATE", "NOTHING"
#: More than what is ever kept of an op: a remark, a header.
_LARGE = 100_000
FAR = 10**12


class AimedOp(NamedTuple):
    """An op and what must become of each of its elements; `targets` are the halves that it ends."""

    value: bytes
    headers: Headers
    state: str
    fates: list[str]
    targets: list[int]


def aimed(
    random: Random, group: str, halves: Sequence[tuple[int, Half]], refused_offset: int
) -> AimedOp:
    """Return an op that ends halves of a group, at their offsets, among elements that are wrong.

    `refused_offset` is the offset of a record that was refused, or an offset without a record.
    """
    state = random.choice(["COMMIT_MESSAGE", "COMMIT_MESSAGE", "ROLLBACK_MESSAGE"])
    elements: list[tuple[Any, Any]] = []
    fates: list[str] = []
    for offset, half in halves:
        hostile = len(halves) == 1 and random.random() < 0.01
        while random.random() < 0.4 or (hostile and len(elements) < 1_000):
            element, fate = _wrong(random, offset, refused_offset)
            elements.append(element)
            fates.append(fate)
        elements.append((offset, half.transaction_id))
        fates.append(ENDS)
    op_body = body(state, group, elements)
    if random.random() < 0.1:
        remark = random.choice([None, "x" * 999, "x" * _LARGE])
        op_body |= {"from_check": random.random() < 0.5, "remark": remark}
    headers = [*TAG, *[("a", random.randbytes(5))] * random.choice([0, 0, 0, 1, 200])]
    if random.random() < 0.01:
        headers.append(("large", bytes(_LARGE)))
    random.shuffle(headers)
    targets = [offset for offset, _ in halves]
    return AimedOp(written(op_body, random), headers, state, fates, targets)


def stranger(random: Random, offset: int, half: Half) -> AimedOp:
    """Return an op of another group for a half that is pending."""
    value = written(body("COMMIT_MESSAGE", "strangers", [(offset, half.transaction_id)]), random)
    return AimedOp(value, TAG, "COMMIT_MESSAGE", ["GROUP_MISMATCH"], [])


def again(random: Random, op: AimedOp, halves: dict[int, Half]) -> AimedOp:
    """Return an op after another one, for the halves that it has ended: the same, or another end.

    One that says UNKNOWN may come at any time.
    """
    state = random.choice(["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOWN"])
    group = halves[op.targets[0]].group
    elements = [(offset, halves[offset].transaction_id) for offset in op.targets]
    fate = {op.state: DUPLICATE, "UNKNOWN": NOTHING}.get(state, "CONFLICTING_END")
    fates = [fate] * len(elements)
    return AimedOp(written(body(state, group, elements), random), TAG, state, fates, [])


def _wrong(random: Random, offset: int, refused_offset: int) -> tuple[tuple[Any, Any], str]:
    kind = random.random()
    if kind < 0.5:
        return random.choice(BROKEN), "MALFORMED_OP"
    if kind < 0.7:
        # The half beside it is ended by the next element at the soonest.
        return (
            offset,
            random.choice(["guessed", "\x00", "é" * 128, "{id}"]),
        ), "TRANSACTION_MISMATCH"
    return random.choice(
        [(refused_offset, "id"), (FAR + random.randrange(9), "far")]
    ), "UNKNOWN_HALF"


def ops_for(random: Random, sent: Sequence[tuple[int, Half]], refused_offset: int) -> list[AimedOp]:
    """Return ops that end all halves of a queue that can be ended, and ends after these.

    Those of strangers come first: behind the end of their half they would conflict with it.
    """
    groups: dict[str, list[tuple[int, Half]]] = {}
    strangers = []
    for offset, half in sent:
        if not half.refused:
            groups.setdefault(half.group, []).append((offset, half))
            if random.random() < 0.1:
                strangers.append(stranger(random, offset, half))
    ends = []
    for group, halves in groups.items():
        rest = halves
        while rest:
            # With as many wrong elements beside them an op has 1,024 at most.
            many = random.choice([1, 1, 2, 5, 20, 500])
            ends.append(aimed(random, group, rest[:many], refused_offset))
            rest = rest[many:]
    by_offset = dict(sent)
    return strangers + ends + [again(random, op, by_offset) for op in ends if random.random() < 0.2]
