"""The fuzz without Kafka and Spark: decoding, the step, and what delivery would write."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from resolver.errors import ProtocolError
from resolver.protocol import (
    Headers,
    Names,
    StoredHalf,
    StoredRecord,
    decode_check,
    decode_half,
    decode_op,
    decode_resolution,
    half_fence_record,
    is_fence,
    record_bytes,
)
from resolver.resolve.delivery.packed import BatchName, pack, unpack
from resolver.resolve.step import (
    CheckSent,
    Ended,
    Plan,
    QueueDecisions,
    StepSettings,
    ops_to_read,
    step,
)

from .aimed import FAR, AimedOp, ops_for
from .expected import Expectations
from .halves import Half, of_bytes, right, wrong
from .ops import no_op

NAMES, _SECRET = Names(), "secret"
BATCH_RECORDS = 500
#: What a quarantined record takes, and one of an element, however large its op is.
_MAX_BYTES, _MAX_ELEMENT_BYTES = 1_081_344, 3_000
#: Many halves are asked about before their end comes; none is given up, as nobody answers.
_SETTINGS = StepSettings(
    transaction_timeout_ms=3_000, transaction_check_interval_ms=2_000, max_output_bytes=10**12
)
#: From one batch to the next Kafka's clock stands, goes on, jumps, or steps back.
_TICKS_MS = (0, 500, 2_000, 5_000, 20_000, -1_500)
#: How often a batch's ops are held back, and how often those that were are sent.
_HELD_BACK, _HELD_NO_MORE = 0.4, 0.25
_STATES = {"COMMIT": "COMMIT_MESSAGE", "ROLLBACK": "ROLLBACK_MESSAGE"}


def fuzz(records: int, seed: int) -> int:
    """Send at least `records` records to one queue; return how many checks there were.

    Raises `AssertionError` with what differs.
    """
    queue = Queue(Random(seed))  # noqa: S311
    while queue.sent < records:
        queue.batch(BATCH_RECORDS)
    queue.finish()
    return queue.checks


class Queue:
    """One queue, fed batch by batch."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._state: dict[str, bytes] = {}
        self._offsets = {"half": 0, "op": 0}
        self._plan = Plan(0, 0, 0)
        self._fences: list[StoredRecord] = []
        self._unread: list[StoredRecord] = []
        self._now_ms = 1_000
        self._expectations = Expectations(NAMES)
        self._halves: dict[str, Half] = {}
        self._ended: set[str] = set()
        self._asked: Counter[str] = Counter()
        self._duplicates = 0
        self._refused: list[Any] = []
        self._coming: list[tuple[int, Half]] = []
        self._due: list[AimedOp] = []
        self._held: list[AimedOp] = []
        self.sent = 0

    def batch(self, records: int) -> None:
        """Send `records` records, about half of them halves, and step once over all of them.

        Some ops come a batch before their halves, some a batch or more after them, and some when
        they have been asked about.
        """
        random = self._random
        self._now_ms += random.choice(_TICKS_MS)
        halves, due = self._coming, self._due
        self._coming = [(self._next("half"), some_half(random)) for _ in range(records // 2)]
        for offset, half in self._coming:
            self._expectations.half(0, offset, half)
            self._halves[f"0:{offset}"] = half
            decode_alone(half.key, half.value, half.headers)
        refused_offset = next((offset for offset, half in self._coming if half.refused), FAR)
        new = ops_for(random, self._coming, refused_offset)
        if random.random() < _HELD_BACK:
            self._held += new
            new = []
        if random.random() < _HELD_NO_MORE:
            due, self._held = self._held + due, []
        early, late = random.randrange(len(new) // 5 + 1), random.randrange(len(due) // 2 + 1)
        self._due = due[len(due) - late :] + new[early:]
        self._send(halves, due[: len(due) - late] + new[:early], records)

    def _send(self, halves: list[tuple[int, Half]], ops: list[AimedOp], records: int) -> None:
        """Step over halves and ops, and what is no op, in any order within a batch."""
        random = self._random
        rows = [
            self._row(offset, half.key, half.value, self._seen(half)) for offset, half in halves
        ]
        op_rows = []
        for op in ops:
            offset = self._next("op")
            self._expectations.op(0, offset, op)
            op_rows.append(self._row(offset, None, op.value, op.headers))
        while len(op_rows) < records - len(rows):
            offset, (value, headers) = self._next("op"), no_op(random)
            self._expectations.no_op(0, offset)
            op_rows.append(self._row(offset, None, value, headers))
            decode_alone(None, value, headers)
        random.shuffle(rows)
        random.shuffle(op_rows)
        self._step(rows, op_rows)
        self.sent += len(rows) + len(op_rows)

    def finish(self) -> None:
        """Send what is left, read what was left, and compare all that was decided."""
        coming, self._coming = self._coming, []
        self._send(coming, self._held + self._due, 0)
        while self._unread:  # each time more of them
            decisions = self._step([], [])
        assert decisions.pending == 0
        assert self._duplicates == self._expectations.duplicates
        differences = self._expectations.compare(self._refused, self._ended)
        assert not differences, "\n".join(differences[:20])

    @property
    def checks(self) -> int:
        """How many checks were sent."""
        return self._asked.total()

    def _next(self, topic: str) -> int:
        """Return the next offset: Kafka leaves gaps."""
        offset = self._offsets[topic] + (self._random.random() < 0.1)
        self._offsets[topic] = offset + 1
        return offset

    def _seen(self, half: Half) -> Headers | None:
        """Return a half's headers as they are read: not at all where a name is no UTF-8."""
        return None if half.refused and self._random.random() < 0.1 else half.headers

    def _row(
        self, offset: int, key: bytes | None, value: bytes | None, headers: Headers | None
    ) -> StoredRecord:
        return StoredRecord(offset, self._now_ms, key, value, headers)

    def _step(self, halves: list[StoredRecord], ops: list[StoredRecord]) -> QueueDecisions:
        """Step over halves and new ops; the halves of the next batch are stored, and not read."""
        halves_end = self._coming[0][0] if self._coming else self._offsets["half"]
        self._plan = Plan(halves_end, self._plan.ops_end, self._offsets["op"])
        halves += [fence for fence in self._fences if fence.offset < halves_end]
        self._fences = [fence for fence in self._fences if fence.offset >= halves_end]
        start, end = ops_to_read(self._state, 0, self._plan)
        self._unread = sorted(op for op in self._unread + ops if op.offset >= start)
        read = [op for op in self._unread if op.offset < end]
        changes, decided = step(
            self._state, 0, self._plan, halves, read, self._now_ms, _SETTINGS, _SECRET
        )
        for key, value in changes.items():
            if value is None:
                del self._state[key]
            else:
                self._state[key] = value
        if decided.fence_ops is not None:
            fence = half_fence_record(NAMES.half, 0, decided.fence_ops, _SECRET)
            self._fences.append(self._row(self._next("half"), None, fence.value, fence.headers))
        self._duplicates += decided.duplicates
        offsets = [ended.op_offset or 0 for ended in decided.ended]
        assert offsets == sorted(offsets)
        for ended in decided.ended:
            self._take(ended)
        for sent in decided.checks:
            self._take_check(sent)
        for refused in decided.refused:
            self._refused.append(((refused.source, refused.element), refused.reason.value))
        _write(decided)
        return decided

    def _take(self, ended: Ended) -> None:
        half_id = ended.stored_half.half_offset
        assert half_id not in self._ended, half_id
        self._ended.add(half_id)
        half, state, op_offset = self._expectations.ends[half_id]
        assert _STATES[ended.outcome.value] == state, half_id
        assert ended.op_offset == op_offset, half_id
        assert half is self._halves[half_id]
        self._see_same(ended.stored_half)

    def _take_check(self, sent: CheckSent) -> None:
        """See that what is asked about is a half that has not ended, once more than before."""
        half_id = sent.stored_half.half_offset
        assert half_id not in self._ended, half_id
        self._asked[half_id] += 1
        assert sent.checks == self._asked[half_id], half_id
        self._see_same(sent.stored_half)

    def _see_same(self, stored_half: StoredHalf) -> None:
        """See that it is the half that was sent, bit for bit."""
        half, delivered = self._halves[stored_half.half_offset], stored_half.half
        assert (delivered.key, delivered.body, delivered.headers) == (
            half.key,
            half.value,
            half.user_headers,
        )
        assert delivered[:3] == (half.transaction_id, half.group, half.topic), stored_half
        assert delivered.real_qid == half.real_qid, stored_half


def some_half(random: Random, topic: str = "orders", partitions: int = 3) -> Half:
    make = random.choices([right, wrong, of_bytes], [5, 4, 1])[0]
    return make(random, topic, partitions)


def decode_alone(key: bytes | None, value: bytes | None, headers: Headers) -> None:
    """Decode a record as anything: whatever it is, only an error of the protocol may be raised."""
    is_fence(value, headers)
    for decode in (
        lambda: decode_half(key, value, headers),
        lambda: decode_op(value, headers),
        lambda: decode_check(value, headers),
        lambda: decode_resolution(value),
    ):
        try:
            decode()
        except ProtocolError as error:
            assert len(str(error)) < 500, "an error quotes too much"  # noqa: PT017 - none must come


def _write(decided: QueueDecisions) -> None:
    """Make the records that delivery would write; each has to fit where it goes."""
    for part in pack(decided, NAMES, BatchName(7, "query"), _MAX_BYTES):
        for decision in unpack(part):
            message = decision.message
            if message is not None and message.topic == NAMES.quarantine:
                size = record_bytes(message.key, message.value, list(message.headers))
                is_element = message.headers[-1][0] == "ELEMENT"
                assert size <= (_MAX_ELEMENT_BYTES if is_element else _MAX_BYTES)
