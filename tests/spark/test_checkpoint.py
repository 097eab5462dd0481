"""What a checkpoint keeps, read again by another object as after a restart."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from resolver.errors import ResolverError, SettingsError
from resolver.resolve.checkpoint import Checkpoint
from resolver.resolve.step import StepSettings

FIRST, SECOND, THIRD = (StepSettings(transaction_timeout_ms=ms) for ms in (1, 2, 3))

Reopen = Callable[[], Checkpoint]


@pytest.fixture
def reopen(spark: SparkSession, tmp_path: Path) -> Reopen:
    """Return what opens the test's checkpoint: it is a URI, as on any file system."""
    return lambda: Checkpoint(spark, (tmp_path / "checkpoint").as_uri())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder whose files are the records of `run_query`, one a batch."""
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


def run_query(
    spark: SparkSession, checkpoint: Checkpoint, source: Path, fails: bool = False
) -> None:
    """Run the checkpoint's query over what is new; with `fails` its batch is only planned."""

    def take(_batch: object, _batch_id: int) -> None:
        if fails:
            raise ValueError("this batch is not committed")

    number = len(list(source.iterdir()))
    (source / f"{number}.txt").write_text(f"{number}\n")
    writer = spark.readStream.text(str(source)).writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", checkpoint.spark).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException) if fails else nullcontext():
        writer.start().awaitTermination()


def test_its_identity_stays(reopen: Reopen, spark: SparkSession, tmp_path: Path) -> None:
    identity = reopen().identity()
    assert reopen().identity() == identity
    assert Checkpoint(spark, str(tmp_path / "another")).identity() != identity


@pytest.mark.gate
def test_a_damaged_file_is_an_error_that_says_what_to_do(reopen: Reopen, tmp_path: Path) -> None:
    reopen().identity()
    (tmp_path / "checkpoint" / "identity").write_text('"cut sho')
    with pytest.raises(ResolverError, match=r"checkpoint/identity.* is damaged.*--rebuild"):
        reopen().identity()


def test_other_settings_hold_from_the_first_batch_not_yet_planned(
    reopen: Reopen, spark: SparkSession, source: Path
) -> None:
    """Which is not the first one not yet committed: the failed batch is replayed as planned."""
    reopen().extend_planned_settings(FIRST)
    run_query(spark, reopen(), source)
    run_query(spark, reopen(), source, fails=True)
    planned = reopen().extend_planned_settings(SECOND)
    assert planned.entries == ((0, FIRST), (2, SECOND))
    assert reopen().extend_planned_settings(SECOND) == planned


def test_of_settings_before_any_batch_the_last_hold(reopen: Reopen) -> None:
    for settings in (FIRST, SECOND, THIRD):
        reopen().extend_planned_settings(settings)
    planned = reopen().extend_planned_settings(THIRD)
    assert planned.entries == ((0, FIRST), (0, SECOND), (0, THIRD))
    assert planned.for_batch(0) == THIRD


def test_an_empty_or_unfinished_offset_log_has_no_batch(reopen: Reopen, tmp_path: Path) -> None:
    offsets = tmp_path / "checkpoint" / "spark" / "offsets"
    offsets.mkdir(parents=True)
    assert reopen().extend_planned_settings(FIRST).entries == ((0, FIRST),)
    (offsets / ".7.0b1c.tmp").write_text("v1\n")
    (offsets / ".6.crc").write_text("")
    assert reopen().extend_planned_settings(SECOND).entries == ((0, FIRST), (0, SECOND))


def test_another_prefix_is_refused(reopen: Reopen) -> None:
    reopen().extend_planned_settings(StepSettings(topic_prefix="one."))
    with pytest.raises(SettingsError, match=r"is 'two\.'.* with 'one\.'"):
        reopen().extend_planned_settings(StepSettings(topic_prefix="two."))
    planned = reopen().extend_planned_settings(StepSettings(topic_prefix="one."))
    assert planned.topic_prefix == "one."


def test_it_is_new_until_a_batch_is_committed(
    reopen: Reopen, spark: SparkSession, source: Path
) -> None:
    assert reopen().is_new()
    run_query(spark, reopen(), source, fails=True)
    assert reopen().is_new()
    run_query(spark, reopen(), source)
    assert not reopen().is_new()


def test_it_is_of_the_topics_that_it_was_made_with(reopen: Reopen) -> None:
    reopen().keep_topics({"tx.half": "a", "tx.op": "b"}, 4)
    reopen().keep_topics({"tx.half": "a", "tx.op": "b"}, 4)
    with pytest.raises(ResolverError, match=r"tx.half was made again.*--rebuild"):
        reopen().keep_topics({"tx.half": "c", "tx.op": "b"}, 4)
    with pytest.raises(SettingsError, match=r"4 queues, and there are 8.*--rebuild"):
        reopen().keep_topics({"tx.half": "a", "tx.op": "b"}, 8)


def test_a_rebuild_stays_one(reopen: Reopen, spark: SparkSession, source: Path) -> None:
    assert not reopen().is_rebuild()
    assert reopen().rebuild_ends() is None
    reopen().begin_rebuild()
    reopen().keep_rebuild_ends({"tx.half": {"0": 12}})
    run_query(spark, reopen(), source, fails=True)
    reopen().begin_rebuild()  # its first batch did not come through: begun again
    run_query(spark, reopen(), source)
    assert reopen().is_rebuild()
    assert reopen().rebuild_ends() == {"tx.half": {"0": 12}}


def test_a_checkpoint_with_batches_becomes_no_rebuild(
    reopen: Reopen, spark: SparkSession, source: Path
) -> None:
    for is_planned_only in (True, False):
        run_query(spark, reopen(), source, fails=is_planned_only)
        with pytest.raises(SettingsError, match="has batches; a rebuild needs a new one"):
            reopen().begin_rebuild()
    assert not reopen().is_rebuild()
