"""Histories of one queue, built from bytes: an application, two topics and a reader, in steps.

A history remembers what was sent, so that most ops speak of real halves, and its time moves in
steps comparable with the timeouts: else nothing would ever be checked or discarded. Each event
takes its choices from its own bytes; zeros choose the plainest, so that Hypothesis shrinks well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st

from . import records
from .driver import next_plan
from .records import Batch, History, Sent
from .vocabulary import RANGE, Ends, Plan, Rules

EVENT_BYTES = 18
MAX_EVENTS = 40
START_MS = 1_000_000
NEVER_MS = 10**9

#: What groups may publish to; the halves' topic is `orders`.
GROUP_TOPICS: list[dict[str, list[str]]] = [
    {"g1": ["orders.*", "order"], "g2": ["ord*"]},
    {"g0": ["orders"], "*": []},
    {"g1": [], "*": ["*"]},
]

T = TypeVar("T")


class Choices:
    """Choices out of bytes, one each; when they are used up, always the first option."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def below(self, n: int) -> int:
        return next(self._data, 0) % n

    def one_in(self, n: int) -> bool:
        return self.below(n) == n - 1

    def of(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]


_EVENTS = (
    ["nothing"]
    + ["half"] * 9
    + ["op"] * 11
    + ["read"] * 6
    + ["fence"] * 2
    + ["malformed half", "malformed op"]
)
_TARGETS = (
    ["open"] * 9
    + ["any"] * 3
    + ["wrong id"]
    + ["coming"] * 2
    + ["far", "gap", "malformed", "made up"]
)
_FAR = [10**6, 2**63 - 1, 2**53 + 1, RANGE * 3]


class World:
    """What was sent so far and how much of it was read."""

    def __init__(self, choices: Choices) -> None:
        self.rules = _rules(choices)
        self.at_ms = START_MS
        self.half_offset = choices.of([0, 0, 7, RANGE - 3, 2 * RANGE - 1, 2**40])
        self.op_offset = choices.of([0, 0, 5, 2**33])
        self.half_log: list[Sent] = []
        self.op_log: list[Sent] = []
        self.read_halves = self.read_ops = 0
        self.good: list[Sent] = []
        self.open: list[Sent] = []
        self.batches: list[tuple[Batch, Rules]] = []
        self.plan = Plan(0, 0, 0, 0)
        #: How many halves there were when each op was stored.
        self.halves_at_op: list[int] = []
        #: Of ops, half offsets that they name and that were not there yet.
        self.made_up: list[tuple[int, int]] = []
        self.last_rounds = choices.below(7)
        limits = choices.of([{}] * 15 + GROUP_TOPICS)
        self.rules = replace(self.rules, group_topics=limits)

    def event(self, choices: Choices) -> None:
        rules = self.rules
        timeout, interval = rules.transaction_timeout_ms, rules.transaction_check_interval_ms
        steps = [0, 0, 1, timeout // 10, timeout // 3, timeout, timeout + 1, interval // 2]
        self.at_ms += choices.of([*steps, interval, interval + 1, 2 * interval, 3, 40])
        kind = choices.of(_EVENTS)
        if kind == "half":
            self._half(choices)
        elif kind == "malformed half":
            self._log_half(records.malformed_half(*self._next_half(choices), choices.below(256)))
        elif kind == "op":
            self._op(choices)
        elif kind == "fence":
            self._log_op(records.fence(*self._next_op(choices), null=choices.one_in(4)))
        elif kind == "malformed op":
            self._log_op(records.malformed_op(*self._next_op(choices), choices.below(256)))
        elif kind == "read":
            self._read(choices, halves_left=choices.of([0, 0, 1, 2, 5]), ops_left=choices.below(3))

    def finish(self, choices: Choices) -> History:
        """Read all that is left; then let time pass with nothing but fences and answers."""
        self._read(choices, 0, 0)
        for _ in range(self.last_rounds):
            interval = self.rules.transaction_check_interval_ms
            self.at_ms += choices.of([interval + 1, interval, 2 * interval, 5 * interval])
            self._log_op(records.fence(*self._next_op(choices)))
            if self.open and choices.one_in(3):
                self._answer_unknown(choices, choices.of(self.open))
            self._read(choices, 0, 0)
        guessed = {op for op, half in self.made_up if half < self.half_offset}
        return History(self.batches, frozenset(guessed))

    def _stamp(self, choices: Choices) -> int:
        """Stored times mostly rise; brokers' clocks step now and then."""
        interval = self.rules.transaction_check_interval_ms
        steps = [0] * 12 + [-1, -interval, interval, 4 * interval]
        return max(0, self.at_ms + choices.of(steps))

    def _next_half(self, choices: Choices) -> tuple[int, int]:
        self.half_offset += choices.of([0] * 11 + [1, 1, 2, 7, RANGE])
        return self.half_offset, self._stamp(choices)

    def _next_op(self, choices: Choices) -> tuple[int, int]:
        self.op_offset += choices.of([0, 0, 0, 1, 3])
        return self.op_offset, self._stamp(choices)

    def _log_half(self, sent: Sent) -> None:
        self.half_log.append(sent)
        self.half_offset = sent.offset + 1

    def _log_op(self, sent: Sent) -> None:
        self.op_log.append(sent)
        self.op_offset = sent.offset + 1
        self.halves_at_op.append(len(self.half_log))
        elements = sent.means.says.elements if isinstance(sent.means.says, Ends) else ()
        named = (element[0] for element in elements if element)
        there = self.half_offset if self.half_log else 0  # the first may have any offset
        self.made_up += [(sent.offset, half) for half in named if half >= there]

    def _half(self, choices: Choices) -> None:
        offset, stored_at_ms = self._next_half(choices)
        reused = self.good[-1].means.half.transaction_id if self.good else None
        sent = records.half(
            offset,
            stored_at_ms,
            reused if choices.one_in(12) else None,
            group=choices.of(["g0", "g0", "g1", "g2"]),
            immunity=choices.of(records.IMMUNITIES) if choices.one_in(4) else None,
            key=choices.of([None, b"", b"key\x00\xff"]),
            body=choices.of([b"body", None, b"", b"\x00" * 700]),
            user=choices.of([(), (), [("TAGS", b"a"), ("TAGS", None), ("", b"")]]),
            real_qid=choices.of([None, None, 0, 2**31 - 1]),
        )
        self._log_half(sent)
        self.good.append(sent)
        self.open.append(sent)

    def _op(self, choices: Choices) -> None:
        offset, stored_at_ms = self._next_op(choices)
        state = choices.of(["COMMIT_MESSAGE"] * 3 + ["ROLLBACK_MESSAGE"] * 2 + ["UNKNOWN"] * 2)
        stranger = choices.one_in(10)
        from_check, operator = choices.one_in(3), choices.one_in(12)
        targets = [self._target(choices) for _ in range(choices.of([1, 1, 1, 2, 3, 4]))]
        groups = [group for _, _, group in targets if group] or ["g0"]
        self._log_op(
            records.op(
                offset,
                stored_at_ms,
                [(half_offset, transaction_id) for half_offset, transaction_id, _ in targets],
                state,
                "strangers" if stranger else groups[0],
                from_check=from_check,
                actor="anna" if operator else None,
            )
        )
        if state != "UNKNOWN":
            ended = {half_offset for half_offset, _, group in targets if group == groups[0]}
            self.open = [half for half in self.open if half.offset not in ended]

    def _answer_unknown(self, choices: Choices, half: Sent) -> None:
        asked = half.means.half
        element = (half.offset, asked.transaction_id)
        place = self._next_op(choices)
        self._log_op(records.op(*place, [element], "UNKNOWN", asked.group, from_check=True))

    def _target(self, choices: Choices) -> tuple[Any, Any, str | None]:
        """Return what an element speaks of: half offset, transaction id, that half's group."""
        kind, which = choices.of(_TARGETS), choices.below(256)
        if kind == "coming":
            coming = self.half_offset + which % 3
            return coming, f"id-{coming}", None
        if kind == "far":
            return _FAR[which % len(_FAR)], "id-far", None
        if kind == "malformed":
            return (*records.MALFORMED_ELEMENTS[which % len(records.MALFORMED_ELEMENTS)], None)
        known = self.open if kind == "open" and self.open else self.good
        if kind == "made up" or not known:
            return which, f"id-{which}", None
        target = known[-1 - which % len(known)]
        meant = target.means.half
        if kind == "gap":
            return max(0, target.offset - 1), meant.transaction_id, meant.group
        if kind == "wrong id":
            return target.offset, "id-wrong", meant.group
        return target.offset, meant.transaction_id, meant.group

    def _read(self, choices: Choices, halves_left: int, ops_left: int) -> None:
        upto_half = max(self.read_halves, len(self.half_log) - halves_left)
        upto_op = max(self.read_ops, len(self.op_log) - ops_left)
        order = Random(choices.below(256))  # noqa: S311
        halves = self.half_log[self.read_halves : upto_half]
        ops = self.op_log[self.read_ops : upto_op]
        order.shuffle(halves)
        order.shuffle(ops)
        self.read_halves, self.read_ops = upto_half, upto_op
        # The halves that there are: asked at once when the ops are known, or later.
        then = self.halves_at_op[upto_op - 1] if upto_op else 0
        known = self.half_log[: choices.of([len(self.half_log), then])]
        self.plan = next_plan(self.plan, halves, ops, known[-1].offset + 1 if known else 0)
        if choices.one_in(4):  # what an aborted transaction has left at the end is read too
            coming = [half.offset for half in self.half_log[upto_half : upto_half + 1]]
            end = (coming or [max(self.half_offset, self.plan.halves_end)])[0]
            known_end = max(end, self.plan.halves_known)
            self.plan = self.plan._replace(halves_end=end, halves_known=known_end)
        batch = Batch(self._clock(choices), self.plan, halves, ops)
        self.batches.append((batch, self._rules_now(choices)))

    def _clock(self, choices: Choices) -> int:
        rules = self.rules
        interval = rules.transaction_check_interval_ms
        jumps = [0] * 18 + [-1, -interval, -NEVER_MS, interval, 3 * interval]
        ahead = [*jumps, rules.file_reserved_ms + 1] if rules.file_reserved_ms < NEVER_MS else jumps
        return max(0, self.at_ms + choices.of(ahead))

    def _rules_now(self, choices: Choices) -> Rules:
        if not choices.one_in(20):
            return self.rules
        return Rules(**{**vars(self.rules), "reject_transaction_message": True})


def _rules(choices: Choices) -> Rules:
    timeout = choices.of([1000, 200, 5000])
    interval = choices.of([1000, 500, 3000])
    return Rules(
        transaction_timeout_ms=timeout,
        transaction_check_interval_ms=interval,
        transaction_check_max=1 + choices.below(3),
        file_reserved_ms=choices.of([NEVER_MS, 20_000, 6000]),
        count_unanswered_checks=choices.one_in(2),
        check_backoff_max_ms=choices.of([NEVER_MS, interval // 2, interval * 3]),
        max_checks=choices.of([1000, 1, 2, 3]),
        max_output_bytes=choices.of([10**9] * 9 + [1, 700, 2_000]),
        max_ops=choices.of([10**6] * 4 + [1, 3]),
    )


def build(data: bytes) -> History:
    """Build a history: the first bytes choose the rules, the last the end, between are events."""
    parts = [data[at : at + EVENT_BYTES] for at in range(0, len(data), EVENT_BYTES)]
    first, last, *events = [*parts, b"", b""] if len(parts) < 2 else parts
    world = World(Choices(first))
    for event in events:
        world.event(Choices(event))
    return world.finish(Choices(last))


def numbered(number: int) -> History:
    """Return one history of a fixed, endless list."""
    random = Random(number)  # noqa: S311
    return build(random.randbytes(EVENT_BYTES * (2 + random.randint(10, MAX_EVENTS))))


@st.composite
def histories(draw: st.DrawFn) -> History:
    size = EVENT_BYTES * (2 + draw(st.integers(0, MAX_EVENTS)))
    return build(draw(st.binary(min_size=size, max_size=size)))
