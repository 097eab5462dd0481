"""The demo's counts, from records in any order."""

from __future__ import annotations

import itertools

import pytest

from resolver.demo.reading import Counts, Read, Tally
from resolver.demo.shop import TOPIC
from resolver.protocol import Headers, Names, Outcome, Resolution, Source

NAMES = Names("tx.")
CHECKS = NAMES.check("shop")


def record(
    topic: str, value: bytes | None = None, headers: Headers | None = None, offset: int = 7
) -> Read:
    return Read(topic, 0, offset, None, value, headers or [], received_ms=5_000)


def outcome(kind: Outcome, source: Source) -> Read:
    said = Resolution("t", 0, 7, kind, source, "shop", TOPIC, 1, 0, 0, 1, 2_000, 3_500, 4, 1, "q")
    return record(NAMES.resolution, said.to_record(NAMES.resolution).value)


HALF = record(NAMES.half)
DELIVERED = record(TOPIC, headers=[("UNIQ_KEY", b"t"), ("HALF_OFFSET", b"0:7")])
COMMITTED = outcome(Outcome.COMMIT, Source.CHECK)


@pytest.mark.parametrize("order", list(itertools.permutations([HALF, COMMITTED, DELIVERED])))
def test_a_commit_in_whatever_order_its_records_are_read(order: tuple[Read, ...]) -> None:
    tally = Tally(NAMES, CHECKS)
    for read in order:
        tally.take(read)
    assert tally.pending == 0
    assert tally.counts == Counts(begun=1, committed=1, committed_by_check=1, delivered=1)
    assert list(tally.latencies) == [(1.5, 3.0)]


def test_other_outcomes_and_records() -> None:
    tally = Tally(NAMES, CHECKS)
    tally.take(outcome(Outcome.ROLLBACK, Source.END))
    tally.take(outcome(Outcome.DISCARD, Source.LIMIT))
    tally.take(outcome(Outcome.UNDELIVERABLE, Source.DELIVERY))
    tally.take(record(NAMES.discarded, headers=[("REASON", b"CHECK_MAX")]))
    tally.take(record(NAMES.discarded, headers=[("REASON", b"UNDELIVERABLE")]))
    tally.take(record(CHECKS))
    assert tally.counts == Counts(rolled_back=1, discarded=1, undeliverable=1, checks=1)
    assert tally.discarded_ids == {"t"}


def test_a_half_is_pending_until_it_has_an_outcome_or_is_refused() -> None:
    tally = Tally(NAMES, CHECKS)
    tally.take(HALF)
    assert tally.pending == 1
    tally.take(record(NAMES.quarantine, headers=[("SOURCE", b"tx.op:0:7")]))
    assert tally.pending == 1
    tally.take(record(NAMES.quarantine, headers=[("SOURCE", b"tx.half:0:7")]))
    assert (tally.pending, tally.counts.quarantined) == (0, 2)
