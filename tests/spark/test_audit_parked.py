"""The audit of parked messages: decided, without an outcome until they are released."""

from __future__ import annotations

from pyspark.sql import SparkSession

from resolver.audit.job import audited
from resolver.audit.report import Invariant
from resolver.protocol import Record, Release, Resolution, parked_record, release_record

from .ledger import Ledger
from .records import half, op, resolution

QUEUE = 0


def outcome(offset: int, batch: int) -> Resolution:
    name = f"id-{offset}"
    said = resolution(queue=QUEUE, offset=offset, op_offset=offset)
    return said._replace(transaction_id=name, batch_id=batch)


def missing_outcomes(ledger: Ledger, spark: SparkSession) -> tuple[int, int]:
    """Land, and return how many outcomes the audit misses, and how many messages are parked."""
    ledger.land()
    report = audited(spark, ledger.settings, str(ledger.tables), with_topics=False, examples=1)
    (found,) = (one for one in report.findings if one.invariant is Invariant.ONE_OUTCOME)
    return found.violations, report.counts["parked"]


def test_no_outcome_is_missing_while_its_message_is_parked_and_one_is_when_it_is_released(
    ledger: Ledger, spark: SparkSession
) -> None:
    names = ledger.names

    def written(offset: int, batch: int) -> Record:
        return outcome(offset, batch).to_record(names.resolution)._replace(partition=0)

    halves = [half(f"id-{offset}").to_record(names.half, QUEUE) for offset in range(5)]
    ops = [op((offset, f"id-{offset}")).to_record(names.op, QUEUE) for offset in range(5)]
    waits = parked_record(outcome(0, 1), b"key", b"body", halves[0].headers, names)
    ledger.write(*halves, *ops, waits, written(1, 1), written(2, 2))
    assert missing_outcomes(ledger, spark) == (0, 1)

    ledger.write(release_record(Release("orders-out", 1), names))
    ledger.write(written(3, 3), written(4, 4))  # later: so what was written with the release landed
    assert missing_outcomes(ledger, spark) == (1, 0)

    ledger.write(written(0, 1))
    assert missing_outcomes(ledger, spark) == (0, 0)
