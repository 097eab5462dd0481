"""Outcomes are forgotten range by range, the oldest first, `file_reserved_ms` after the last."""

from __future__ import annotations

import pytest

from resolver.protocol import Outcome

from . import records
from .driver import Driver
from .vocabulary import RANGE, Rules

RESERVED = 40_000
SEVERAL = [RANGE - 2, RANGE - 1, RANGE, RANGE + 1, 2 * RANGE - 1, 2 * RANGE, 3 * RANGE]


@pytest.fixture
def queue() -> Driver:
    return Driver(Rules(file_reserved_ms=RESERVED))


def _commit(queue: Driver, now: int, *offsets: int) -> None:
    halves = [records.half(offset, now - 10) for offset in offsets]
    ops = [records.op(now, now - 5, [(offset, f"id-{offset}") for offset in offsets])]
    assert len(queue.at(now, *halves, *ops).ended) == len(offsets)


def _known(queue: Driver, now: int, *offsets: int) -> list[int]:
    """Return the offsets whose commit, sent once more, is known to be a duplicate."""
    op = records.op(now, now - 5, [(offset, f"id-{offset}") for offset in offsets])
    decisions = queue.at(now, op)
    reasons = {r.reason.value for r in decisions.refused}
    assert reasons <= {"UNKNOWN_HALF"}
    unknown = {r.element for r in decisions.refused}
    return [offset for at, offset in enumerate(offsets) if at not in unknown]


def test_ranges_are_forgotten_when_their_newest_end_is_too_old(queue: Driver) -> None:
    _commit(queue, 1_000, *SEVERAL[:3])
    _commit(queue, 20_000, *SEVERAL[3:])
    assert _known(queue, 41_000, *SEVERAL) == SEVERAL
    queue.at(41_001)
    assert _known(queue, 41_002, *SEVERAL) == SEVERAL[2:], "the first range ended at 1,000"
    assert _known(queue, 60_000, *SEVERAL) == SEVERAL[2:]
    queue.at(60_001)
    assert _known(queue, 60_002, *SEVERAL) == SEVERAL[6:], "the range that is being filled stays"


def test_a_pending_half_keeps_its_range_and_all_above(queue: Driver) -> None:
    _commit(queue, 1_000, 0, 1)
    queue.at(1_001, records.half(RANGE - 1, 1_001))
    _commit(queue, 1_002, RANGE, 2 * RANGE)
    queue.at(90_000)
    assert _known(queue, 90_001, 0, 1, RANGE, 2 * RANGE) == [0, 1, RANGE, 2 * RANGE]
    queue.at(90_002, records.op(90_002, 90_002, [(RANGE - 1, f"id-{RANGE - 1}")], actor="anna"))
    queue.at(90_002 + RESERVED + 1)
    assert _known(queue, 140_000, 0, RANGE - 1, RANGE, 2 * RANGE) == [2 * RANGE]


def test_empty_ranges_are_passed_over(queue: Driver) -> None:
    _commit(queue, 1_000, 5)
    _commit(queue, 2_000, 50 * RANGE)
    _commit(queue, 3_000, 60 * RANGE)
    queue.at(100_000)
    assert _known(queue, 100_001, 5, 50 * RANGE, 60 * RANGE) == [60 * RANGE]


def test_state_does_not_grow_with_what_was_settled_and_forgotten(queue: Driver) -> None:
    sizes = []
    for step in range(30):
        _commit(queue, 1_000 + step * 50_000, *range(step * RANGE, step * RANGE + 20))
        sizes.append(sum(map(len, queue.state.values())))
    assert max(sizes[2:]) <= sizes[2] + 64


def test_after_a_rebuild_what_pends_below_keeps_what_had_ended_above(queue: Driver) -> None:
    queue.settle({RANGE + 1: Outcome.COMMIT, RANGE + 2: Outcome.UNDELIVERABLE}, 1_000)
    offsets = [5, RANGE + 1, RANGE + 2, 2 * RANGE]
    read = queue.at(2_000, *(records.half(offset, 10) for offset in offsets))
    assert read.pending == 2
    queue.at(90_000)
    assert _known(queue, 90_001, RANGE + 1, RANGE + 2) == [RANGE + 1, RANGE + 2]
