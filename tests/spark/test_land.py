"""The job land: real broker, real Delta; each record lands once, whatever happens on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipelines import land
from resolver.errors import ResolverError
from resolver.kafka.clients import admin_client
from resolver.kafka.topics import ensure_topics
from resolver.ledger import TABLES, landing
from resolver.ledger.land_start import starting_offsets
from resolver.protocol import (
    QuarantineReason,
    Record,
    Release,
    fence_record,
    half_fence_record,
    parked_record,
    release_record,
)
from tests.support.patience import PATIENCE_SECONDS

from .ledger import Ledger
from .records import check, discarded, half, op, refused, resolution


def one_of_each(ledger: Ledger, name: str = "id-1", group: str = "orders") -> list[Record]:
    names, message = ledger.names, half(name, group)
    end = op((0, name)).to_record(names.op, 0)
    return [
        message.to_record(names.half, 0),
        end,
        check(names, message),
        resolution().to_record(names.resolution),
        discarded(names, message),
        refused(QuarantineReason.UNKNOWN_HALF, end, element=0).to_record(names, 4096),
        parked_record(resolution(), b"key", b"body", message.to_record(names.half).headers, names),
        release_record(Release("real", 1), names),
    ]


def odd_ones(ledger: Ledger) -> list[Record]:
    """Records that no part of this system would write, in every topic; and odd contents."""
    names = ledger.names
    message = half(key=None, body=None, headers=[("a", b"\xff\x00"), ("a", None), ("", b"")])
    topics = [
        names.half,
        names.op,
        names.check("orders"),
        names.resolution,
        names.discarded,
        names.quarantine,
        names.parked,
    ]
    malformed = [
        record
        for topic in topics
        for record in (
            Record(topic, None, None, []),
            Record(topic, b"", b"", [("UNIQ_KEY", None), ("UNIQ_KEY", b"\xff")]),
            Record(topic, b"\xff", b"\xfe\x00\xff", [("REASON", b"\xc3"), ("HALF_OFFSET", b":")]),
            Record(topic, None, b'{"offsets":[1,"2",null],"queue":99999999999}', []),
        )
    ]
    return [
        *malformed,
        fence_record(names.op, 1),
        message.to_record(names.half),
        check(names, message),
        discarded(names, message),
    ]


@pytest.mark.gate
def test_all_kinds_and_malformed_records_land_bit_for_bit(ledger: Ledger) -> None:
    ledger.write(*one_of_each(ledger), *odd_ones(ledger))
    ledger.land()
    ledger.assert_landed_once()
    ledger.assert_spark_reads_the_same()
    assert [len(ledger.rows(table.name)) for table in TABLES] == [6, 6, 6, 6, 5, 6, 5]


def test_fences_of_the_half_topic_are_no_halves_and_do_not_land(ledger: Ledger) -> None:
    ledger.write(half_fence_record(ledger.names.half, 0, 7, "secret"))
    ledger.written.clear()
    ledger.write(*one_of_each(ledger))
    ledger.land()
    ledger.assert_landed_once()


def test_tables_can_be_read_before_anything_has_landed(ledger: Ledger) -> None:
    ledger.land()
    for table in TABLES:
        frame = ledger.spark.read.format("delta").load(str(ledger.tables / table.name))
        assert frame.count() == 0
        comments = {f.name: f.metadata["comment"] for f in frame.schema.fields}
        assert comments == {f.name: f.comment for f in table.fields}


def test_a_restart_goes_on_where_it_was(ledger: Ledger) -> None:
    ledger.write(*one_of_each(ledger, "id-1"))
    ledger.land()
    ledger.write(*one_of_each(ledger, "id-2"))
    ledger.land()
    ledger.assert_landed_once()


def test_a_group_that_comes_later_lands_too(ledger: Ledger) -> None:
    ledger.write(*one_of_each(ledger))
    ledger.land()
    ledger.make_topics("payments")
    ledger.write(check(ledger.names, half(group="payments")))
    ledger.land()
    ledger.assert_landed_once()


def test_a_table_without_new_records_gets_no_commit(ledger: Ledger) -> None:
    ledger.write(half().to_record(ledger.names.half, 0))
    ledger.land()
    assert ledger.version("half") == 1
    assert [ledger.version(table.name) for table in TABLES[1:]] == [0] * 6


def test_each_day_files_that_no_version_needs_any_more_are_removed(ledger: Ledger) -> None:
    ledger.write(*one_of_each(ledger, "id-1"))
    ledger.land()
    (day,) = (ledger.tables / "half").glob("*=*")
    dead = day / "compacted.parquet"
    dead.touch()
    make_older(dead, days=8)
    ledger.write(*one_of_each(ledger, "id-2"))
    ledger.land()
    assert dead.exists()
    for log in ledger.tables.glob("*/_delta_log/*"):
        make_older(log, days=1)
    ledger.forget_snapshots()
    ledger.write(*one_of_each(ledger, "id-3"))
    ledger.land()
    assert not dead.exists()
    ledger.assert_landed_once()


def test_after_a_lost_checkpoint_it_goes_on_behind_what_has_landed(ledger: Ledger) -> None:
    make_topics_of_a_longer_prefix(ledger)
    ledger.write(*one_of_each(ledger, "id-1"), *odd_ones(ledger))
    ledger.land()
    ledger.lose_checkpoint()
    ledger.make_topics("payments")
    ledger.write(*one_of_each(ledger, "id-2", "payments"))
    ledger.land()
    ledger.write(*one_of_each(ledger, "id-3"))
    ledger.land()
    ledger.assert_landed_once()


def test_a_group_that_comes_while_it_starts_without_a_checkpoint_lands_too(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark does not begin with other partitions than it was told where to begin in."""
    ledger.write(*one_of_each(ledger, "id-1"))
    ledger.land()
    ledger.lose_checkpoint()
    starts = []

    def too_late(*arguments: Any) -> str:
        starts.append(starting_offsets(*arguments))
        if len(starts) == 1:
            ledger.make_topics("payments")
            ledger.write(check(ledger.names, half(group="payments")))
        return starts[-1]

    monkeypatch.setattr(landing, "starting_offsets", too_late)
    ledger.land()
    assert len(starts) == 2
    ledger.assert_landed_once()


@pytest.mark.parametrize("checkpoint_lost", [False, True])
def test_a_batch_that_failed_between_two_tables_lands_once(
    ledger: Ledger, checkpoint_lost: bool
) -> None:
    query = ledger.query()
    broken = Unwritable(ledger.tables / "check")
    ledger.write(*one_of_each(ledger))
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(PATIENCE_SECONDS)
    broken.mend()
    assert len(ledger.rows("half")) == 1 and not ledger.rows("check")
    if checkpoint_lost:
        ledger.lose_checkpoint()
    ledger.land()
    ledger.assert_landed_once()


class Unwritable:
    """A table whose place is taken by a file, until it is mended."""

    def __init__(self, table: Path) -> None:
        self._table, self._away = table, table.with_suffix(".away")
        table.rename(self._away)
        table.touch()

    def mend(self) -> None:
        self._table.unlink()
        self._away.rename(self._table)


def test_the_rest_lands_before_a_stop_without_waiting_for_the_trigger(
    spark: SparkSession, ledger: Ledger
) -> None:
    hour = 3_600_000
    ledger.settings = replace(ledger.settings, land_trigger_interval_ms=hour)
    ledger.write(half("id-0").to_record(ledger.names.half, 0))
    query = ledger.query()
    await_first_batch(query)
    ledger.write(*one_of_each(ledger))
    assert landing.land_rest(
        query,
        spark,
        ledger.settings,
        ledger.tables,
        ledger.checkpoint,
        PATIENCE_SECONDS,
        log="Spark's log",
    )
    assert not query.isActive
    ledger.assert_landed_once()


def test_where_the_rest_can_not_land_it_says_how_to_go_on(
    spark: SparkSession, ledger: Ledger
) -> None:
    ledger.write(half("id-0").to_record(ledger.names.half, 0))
    query = ledger.query()
    await_first_batch(query)
    (ledger.checkpoint / "metadata").write_text("{")
    with pytest.raises(ResolverError, match=f"remove the folder {ledger.checkpoint}"):
        landing.land_rest(
            query,
            spark,
            ledger.settings,
            ledger.tables,
            ledger.checkpoint,
            PATIENCE_SECONDS,
            log="Spark's log",
        )


@pytest.mark.parametrize(
    "is_lost",
    [
        pytest.param(False, id="checkpoint kept", marks=pytest.mark.gate),
        pytest.param(True, id="checkpoint lost"),
    ],
)
def test_the_job_killed_while_it_writes_loses_and_doubles_nothing(
    ledger: Ledger, is_lost: bool
) -> None:
    """Killed when the batch is in one table, and not in the others."""
    for batch in range(40):
        ledger.write(*one_of_each(ledger, f"id-{batch}"))
    job = start_job(ledger, "--set", "land_max_offsets_per_trigger=12")
    try:
        await_commits(ledger, job, "half", 2)
        job.send_signal(signal.SIGKILL)
    finally:
        stop(job)
    assert len(ledger.landed()) < len(ledger.written)
    if is_lost:
        ledger.lose_checkpoint()
    ledger.land()
    ledger.assert_landed_once()


def test_the_job_ends_with_its_batch_when_it_is_told_to(ledger: Ledger) -> None:
    ledger.write(*one_of_each(ledger))
    job = start_job(ledger)
    try:
        await_commits(ledger, job, "parked", 1)  # all but the last table have the batch
        job.send_signal(signal.SIGTERM)
        assert job.wait(PATIENCE_SECONDS) == 0
    finally:
        stop(job)
    ledger.assert_landed_once()


def make_topics_of_a_longer_prefix(ledger: Ledger) -> None:
    """Make topics whose names end as those of the ledger; a pattern must not find them."""
    longer = replace(ledger.settings, topic_prefix=f"my-{ledger.settings.topic_prefix}")
    ensure_topics(admin_client(longer), longer, ["orders"])


def make_older(file: Path, days: int) -> None:
    then = file.stat().st_mtime - days * 86_400
    os.utime(file, (then, then))


def await_first_batch(query: StreamingQuery) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while query.lastProgress is None:
        assert query.isActive and time.monotonic() < until
        time.sleep(0.05)


def start_job(ledger: Ledger, *more: str) -> subprocess.Popen[bytes]:
    settings = ledger.settings
    command = [
        *(sys.executable, land.__file__, "--bootstrap-servers", settings.bootstrap_servers),
        *("--tables", str(ledger.tables), "--checkpoint", str(ledger.checkpoint)),
        *("--set", f"topic_prefix={settings.topic_prefix}"),
        *("--set", "land_trigger_interval_ms=100", *more),
    ]
    return subprocess.Popen(command, env=os.environ, start_new_session=True)


def await_commits(ledger: Ledger, job: subprocess.Popen[bytes], table: str, commits: int) -> None:
    log = ledger.tables / table / "_delta_log" / f"{commits:020}.json"
    until = time.monotonic() + PATIENCE_SECONDS
    while not log.exists():
        assert job.poll() is None and time.monotonic() < until
        time.sleep(0.02)


def stop(job: subprocess.Popen[bytes]) -> None:
    """End the job and its JVM, which does not go by itself when Python is killed outright."""
    with suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    job.wait(PATIENCE_SECONDS)
