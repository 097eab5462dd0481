"""The audit of resumed messages: each once, and none that was delivered."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from resolver.audit.job import audited
from resolver.audit.report import Invariant
from resolver.protocol.names import RESUMES
from resolver.settings import Settings
from tests.support.tables import Row, half, outcome, write_tables


def resumes(offset: int, old: bytes) -> Row:
    """A half that resumes another one."""
    return half(0, offset, headers=[{"key": "a", "value": None}, {"key": RESUMES, "value": old}])


def test_a_message_that_is_resumed_twice_or_was_delivered_is_found(
    spark: SparkSession, tmp_path: Path
) -> None:
    again = {3: b"0:0", 4: b"0:1", 5: b"0:1", 6: b"0:2", 7: b"x"}
    words = ("DISCARD", "UNDELIVERABLE", "COMMIT")
    write_tables(
        tmp_path,
        half=[half(0, offset) for offset in range(3)]
        + [resumes(offset, old) for offset, old in again.items()],
        resolution=[outcome(0, offset, word) for offset, word in enumerate(words)],
    )
    report = audited(spark, Settings(queues=1), str(tmp_path), with_topics=False, examples=9)
    (found,) = (one for one in report.findings if one.invariant is Invariant.RESUMED)
    assert found.checked == 3
    assert {one.half: one.detail for one in found.examples} == {
        "0:1": "resumed more than once, by halves 0:4, 0:5",
        "0:2": "resumed by half 0:6, and yet COMMIT",
    }
