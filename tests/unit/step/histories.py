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
from .vocabulary import FENCE_SECRET, QUEUE, RANGE, Ends, Plan, Rules

EVENT_BYTES = 20
MAX_EVENTS = 56
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
    + ["revoked"] * 3
    + ["half fence", "forged half fence", "malformed half", "malformed op"]
    + ["announcement"] * 2
)
_TARGETS = (
    ["open"] * 9 + ["any"] * 3 + ["wrong id"] + ["coming", "far", "gap", "malformed", "made up"]
)
#: Words of ops about fast commits: many in some histories, only plain ends in others.
_WORDS: list[list[str | None]] = [
    [None] * 5 + ["delivered"] * 4 + ["gives up"],
    [None] * 9 + ["gives up"],
]
_FAR = [10**6, 2**63 - 1, 2**53 + 1, RANGE * 3]


class World:
    """What was sent so far and how much of it was read.

    An `obedient` producer delivers no half whose fast id is revoked, that it has rolled back or
    given up, or that names no fast id. All others do what they like.
    """

    def __init__(self, choices: Choices, obedient: bool = False) -> None:
        self.obedient = obedient
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
        #: Where the op partition begins: ops before that were deleted.
        lost = choices.of([0] * 9 + [5])
        self.plan = Plan(0, lost, lost)
        self.op_offset = max(self.op_offset, lost)
        self.fast_names: list[str] = choices.of([["a"], ["a", "b"], []])
        #: An operator decides where ops are lost; one in this many ops is an operator's.
        self.operators = 3 if lost else 10
        self.words = choices.of([*_WORDS, _WORDS[0]])
        self.generation = 0
        #: Halves that an obedient producer does not deliver any more.
        self.finished: set[int] = set()
        self.revoked: set[str] = set()
        #: Halves that an end names which may wait.
        self.plainly: set[int] = set()
        #: Ops that name halves which were not there yet.
        self.made_up: set[int] = set()
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
        elif kind == "half fence":
            ops_end = choices.of([self.plan.ops_end, self.op_offset, 0])
            self._log_half(records.half_fence(*self._next_half(choices), ops_end))
        elif kind == "forged half fence":
            forged: dict[str, Any] = choices.of([{"secret": "none"}, {"queue": QUEUE + 1}])
            ops_end = choices.of([self.op_offset, self.op_offset + 1, 2**63 - 1])
            self._log_half(records.half_fence(*self._next_half(choices), ops_end, **forged))
        elif kind == "revoked":
            self._revoke(choices)
        elif kind == "malformed op":
            self._log_op(records.malformed_op(*self._next_op(choices), choices.below(256)))
        elif kind == "announcement":
            self._announce(choices)
        elif kind == "read":
            self._read(choices, halves_left=choices.of([0, 0, 1, 2, 5]), ops_left=choices.below(3))

    def finish(self, choices: Choices) -> History:
        """Read all that is left; then let time pass with nothing but fences and answers."""
        self._read(choices, 0, 0)
        if choices.one_in(3):
            self._give_up_an_id(choices)
        for _ in range(self.last_rounds):
            interval = self.rules.transaction_check_interval_ms
            self.at_ms += choices.of([interval + 1, interval, 2 * interval, 5 * interval])
            self._log_op(records.fence(*self._next_op(choices)))
            if choices.one_in(6):
                self._answer_all(choices)
            if choices.one_in(2):
                self._revoke(choices)
            if self.open and choices.one_in(3):
                self._answer_unknown(choices, choices.of(self.open))
            for _ in range(choices.of([0, 0, 3])):
                self._announce(choices)
                self._read(choices, 0, 0)
            self._read(choices, 0, 0)
        return History(self.batches, frozenset(self.made_up))

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
        says = sent.op_read.says
        elements = says.elements if isinstance(says, Ends) else ()
        named = (element[0] for element in elements if element)
        there = self.half_offset if self.half_log else 0  # the first may have any offset
        if any(half >= there for half in named):
            self.made_up.add(sent.offset)

    def _half(self, choices: Choices) -> None:
        offset, stored_at_ms = self._next_half(choices)
        reused = self.good[-1].half.transaction_id if self.good else None
        sent = records.half(
            offset,
            stored_at_ms,
            reused if choices.one_in(12) else None,
            group=choices.of(["g0", "g0", "g1", "g2"]),
            immunity=choices.of(records.IMMUNITIES) if choices.one_in(3) else None,
            key=choices.of([None, b"", b"key\x00\xff"]),
            body=choices.of([b"body", None, b"", *[b"\x00" * 700] * 2]),
            user=choices.of([(), (), [("TAGS", b"a"), ("TAGS", None), ("", b"")]]),
            real_qid=choices.of([None, None, 0, 2**31 - 1]),
            fast=self._fast_name(choices),
        )
        self._log_half(sent)
        self.good.append(sent)
        self.open.append(sent)

    def _fast_name(self, choices: Choices) -> str | None:
        """Return a fast id's name, mostly one that was not revoked yet, as producers do."""
        name = choices.of([*self.fast_names, None])
        return name and f"{name}{max(0, self.generation - choices.of([0, 0, 0, 1]))}"

    def _op(self, choices: Choices) -> None:
        offset, stored_at_ms = self._next_op(choices)
        state = choices.of(["COMMIT_MESSAGE"] * 3 + ["ROLLBACK_MESSAGE"] * 2 + ["UNKNOWN"] * 2)
        stranger = choices.one_in(10)
        from_check, operator = choices.one_in(3), choices.one_in(self.operators)
        word = choices.of(self.words)
        if not self.fast_names and not stranger:
            word = None
        if word is not None:
            state = "COMMIT_MESSAGE" if word == "delivered" else "UNKNOWN"
            from_check = operator = False
        targets = [self._target(choices) for _ in range(choices.of([1, 1, 1, 2, 3, 4]))]
        groups = [group for _, _, group in targets if group] or ["g0"]
        if self.obedient and word == "delivered":
            targets = [target for target in targets if self._may_deliver(target[:2], groups[0])]
            stranger = False
            if not targets:
                self._log_op(records.fence(offset, stored_at_ms))
                return
        self._log_op(
            records.op(
                offset,
                stored_at_ms,
                [(half_offset, transaction_id) for half_offset, transaction_id, _ in targets],
                state,
                "strangers" if stranger else groups[0],
                from_check=from_check,
                actor="anna" if operator else None,
                delivered=word == "delivered",
                fast=word != "gives up",
            )
        )
        named = {half for half, _, _ in targets if isinstance(half, int)}
        if state == "ROLLBACK_MESSAGE" or word == "gives up":
            self.finished |= named
        elif word is None and state == "COMMIT_MESSAGE":
            self.plainly |= named
        if state != "UNKNOWN":
            ended = {half_offset for half_offset, _, group in targets if group == groups[0]}
            self.open = [half for half in self.open if half.offset not in ended]

    def _may_deliver(self, name: tuple[Any, Any], group: str) -> bool:
        """Whether an obedient producer of a group may deliver a half (offset, id) now."""
        halves = [s.half for s in self.good if (s.offset, s.half.transaction_id) == name]
        groups, ids = {half.group for half in halves}, {half.fast_id for half in halves}
        is_its_own = groups == {group} and any(ids) and not ids & self.revoked
        return is_its_own and name[0] not in self.finished

    def _revoke(self, choices: Choices) -> None:
        """Revoke an id as the resolver does, or as nobody should."""
        ids = {sent.offset: sent.half.fast_id for sent in self.good}
        left = {at: one for at, one in ids.items() if one and one not in self.revoked}
        asked = [one for at, one in left.items() if at in self.plainly]
        fast_id = choices.of(asked or [*left.values()] or [records.fast_id("a0")])
        queue, secret = choices.of([(QUEUE, FENCE_SECRET)] * 5 + [(QUEUE, ""), (0, FENCE_SECRET)])
        self._log_op(records.revoked(*self._next_op(choices), fast_id, queue, secret))
        self.revoked.add(fast_id)
        self.generation += 1

    def _answer_unknown(self, choices: Choices, half: Sent) -> None:
        asked = half.half
        element = (half.offset, asked.transaction_id)
        place = self._next_op(choices)
        self._log_op(records.op(*place, [element], "UNKNOWN", asked.group, from_check=True))

    def _answer_all(self, choices: Choices) -> None:
        """Answer for all halves of a group that may pend, as after the end of its producer."""
        group = choices.of(["g0", "g0", "g1", "g2"])
        halves = [sent for sent in self.good if sent.half.group == group]
        elements = [(sent.offset, sent.half.transaction_id) for sent in halves]
        if elements:
            place = self._next_op(choices)
            self._log_op(records.op(*place, elements, group=group, from_check=True))
            self.plainly.update(half for half, _ in elements)
            self._read(choices, 0, 0)

    def _give_up_an_id(self, choices: Choices) -> None:
        """Commit all halves of an id plainly, as a producer whose transaction has failed."""
        for _ in range(choices.of([2, 3, 4])):
            place = self._next_half(choices)
            self.good.append(records.half(*place, body=b"\x00" * 400, fast="last"))
            self._log_half(self.good[-1])
        halves = [sent for sent in self.good if sent.half.fast_id == records.fast_id("last")]
        elements = [(sent.offset, sent.half.transaction_id) for sent in halves]
        self._read(choices, 0, 0)
        self._log_op(records.op(*self._next_op(choices), elements))
        if choices.one_in(2):
            self._read(choices, 0, 0)
        if choices.one_in(2):  # of some halves it had come through, which the producer did not know
            place = self._next_op(choices)
            through = elements[: choices.of([1, 2])]
            if self.obedient:  # an op that was made up may have rolled them back
                through = [name for name in through if self._may_deliver(name, "g0")]
            if through:
                self._log_op(records.op(*place, through, delivered=True))
        self._log_op(records.revoked(*self._next_op(choices), records.fast_id("last")))
        self._read(choices, 0, 0)

    def _announce(self, choices: Choices) -> None:
        group = choices.of(["g0", "g0", "g1", "strangers"])
        place = self._next_op(choices)
        self._log_op(records.op(*place, [], "UNKNOWN", group, from_check=True))

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
        meant = target.half
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
        self.plan = next_plan(self.plan, halves, ops)
        if choices.one_in(4):  # what an aborted transaction has left at the end is read too
            coming = [half.offset for half in self.half_log[upto_half : upto_half + 1]]
            end = (coming or [max(self.half_offset, self.plan.halves_end)])[0]
            self.plan = self.plan._replace(halves_end=end)
        batch = Batch(self._clock(choices), self.plan, halves, ops)
        self.batches.append((batch, self._rules_now(choices)))
        if self.made_up:  # as the resolver does, where ops wait
            self._log_half(records.half_fence(self.half_offset, self.at_ms, self.plan.ops_end))

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
        max_output_bytes=choices.of([10**9] * 6 + [1, 700, 1_600, 1_600]),
        max_ops=choices.of([10**6] * 4 + [1, 3]),
    )


def build(data: bytes, obedient: bool = False) -> History:
    """Build a history: the first bytes choose the rules, the last the end, between are events."""
    parts = [data[at : at + EVENT_BYTES] for at in range(0, len(data), EVENT_BYTES)]
    first, last, *events = [*parts, b"", b""] if len(parts) < 2 else parts
    world = World(Choices(first), obedient)
    for event in events:
        world.event(Choices(event))
    return world.finish(Choices(last))


def numbered(number: int, obedient: bool = False) -> History:
    """Return one history of a fixed, endless list."""
    random = Random(number)  # noqa: S311
    return build(random.randbytes(EVENT_BYTES * (2 + random.randint(10, MAX_EVENTS))), obedient)


@st.composite
def histories(draw: st.DrawFn, obedient: bool = False) -> History:
    size = EVENT_BYTES * (2 + draw(st.integers(0, MAX_EVENTS)))
    return build(draw(st.binary(min_size=size, max_size=size)), obedient)
