"""Land where its checkpoint is not the one to go on from: it says so, and the remedy works."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException

from resolver.audit.job import audited
from resolver.errors import AuditError, ResolverError
from resolver.kafka.clients import admin_client
from resolver.ledger import TABLES
from resolver.ledger.land_failure import land_failure
from resolver.ledger.landing import land_query
from tests.support.patience import PATIENCE_SECONDS

from .ledger import Ledger
from .records import check, half


def test_an_older_copy_of_the_checkpoint_is_refused(ledger: Ledger) -> None:
    land_halves(ledger, 2)
    copy_checkpoint(ledger)
    land_halves(ledger, 3)
    put_copy_back(ledger)
    land_refused(ledger, r"ahead of land's checkpoint .*\(half has its batch 1, it knows 0")


def test_a_copy_from_before_another_checkpoint_took_over_is_refused(ledger: Ledger) -> None:
    """Its own batches are all there; what the other landed would land once more."""
    land_halves(ledger, 2)
    copy_checkpoint(ledger)
    ledger.lose_checkpoint()
    land_halves(ledger, 3)
    put_copy_back(ledger)
    land_refused(ledger, "ahead of land's checkpoint .* hold offset 4 of partition 0 .* from 2")


@pytest.mark.gate
def test_tables_older_than_their_checkpoint_are_refused(ledger: Ledger) -> None:
    """As restored from a backup, all together: nothing in them would show the gap."""
    land_halves(ledger, 2)
    backup = ledger.home / "backup"
    shutil.copytree(ledger.tables, backup)
    land_halves(ledger, 3)
    shutil.rmtree(ledger.tables)
    shutil.copytree(backup, ledger.tables)
    ledger.forget_snapshots()
    land_refused(ledger, r"half in .* is older than .* \(it has batch 0, and 1 had landed\)")


def test_a_copy_of_what_the_tables_hold_goes_on(ledger: Ledger) -> None:
    land_halves(ledger, 2)
    copy_checkpoint(ledger)
    put_copy_back(ledger)
    land_halves(ledger, 3)
    ledger.assert_landed_once()


def test_a_new_checkpoint_whose_first_batch_failed_goes_on(ledger: Ledger) -> None:
    """Then all tables were written by the one before it, and this one is not older."""
    land_halves(ledger, 2)
    ledger.lose_checkpoint()
    away = ledger.home / "away"
    query = ledger.query()
    (ledger.tables / "half").rename(away)
    (ledger.tables / "half").touch()
    write_halves(ledger, 3)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(PATIENCE_SECONDS)
    (ledger.tables / "half").unlink()
    away.rename(ledger.tables / "half")
    ledger.land()
    ledger.assert_landed_once()


def test_tables_that_are_gone_are_not_made_anew_behind_their_checkpoint(ledger: Ledger) -> None:
    land_halves(ledger, 2)
    shutil.rmtree(ledger.tables / "half")
    shutil.rmtree(ledger.tables / "op")
    for _ in range(2):
        with pytest.raises(ResolverError, match="half, op: no such table in"):
            ledger.land()
    ledger.lose_checkpoint()
    ledger.land()
    ledger.assert_landed_once()


@pytest.mark.parametrize("spoilt", ["cut short", "emptied", "lost"])
def test_a_table_whose_log_is_damaged_is_named_and_lands_again(ledger: Ledger, spoilt: str) -> None:
    land_halves(ledger, 2)
    land_halves(ledger, 3)
    *_, before, last = sorted((ledger.tables / "half" / "_delta_log").glob("*.json"))
    if spoilt == "lost":
        last.unlink()
    elif spoilt == "emptied":
        before.write_bytes(b"")
    else:
        last.write_bytes(last.read_bytes()[:-40])
    ledger.forget_snapshots()
    with pytest.raises(ResolverError) as refused:
        ledger.land()
    folders = f"remove the folders {ledger.tables / 'half'} and {ledger.checkpoint} and start again"
    assert folders in str(refused.value)
    shutil.rmtree(ledger.tables / "half")
    ledger.lose_checkpoint()
    ledger.land()
    ledger.assert_landed_once()


@pytest.mark.parametrize("spoilt", ["cut short", "lost"])
def test_a_table_whose_rows_are_unreadable_is_named_by_the_audit_and_lands_again(
    ledger: Ledger, spoilt: str
) -> None:
    """Land only adds, and need not notice."""
    land_halves(ledger, 2)
    file = spoil_rows(ledger, spoilt)
    with pytest.raises(AuditError) as found:
        audited(ledger.spark, ledger.settings, str(ledger.tables), False, 1)
    folder = ledger.tables / "half"
    assert file.name in str(found.value)
    assert f"remove the folders {folder} and start again" in str(found.value)
    shutil.rmtree(folder)
    with pytest.raises(ResolverError, match=f"remove the folder {ledger.checkpoint} and start"):
        ledger.land()
    ledger.lose_checkpoint()
    ledger.land()
    ledger.assert_landed_once()


def test_a_table_whose_rows_a_new_checkpoint_cant_read_is_named_and_lands_again(
    ledger: Ledger,
) -> None:
    land_halves(ledger, 2)
    ledger.lose_checkpoint()
    spoil_rows(ledger, "cut short")
    with pytest.raises(ResolverError, match=f"remove the folders {ledger.tables / 'half'} and"):
        ledger.land()
    shutil.rmtree(ledger.tables / "half")
    ledger.land()
    ledger.assert_landed_once()


def test_a_table_that_was_not_made_to_the_end_is_made(ledger: Ledger) -> None:
    """As where the first start was killed: its log's folder is made before its first commit."""
    log = ledger.tables / "half" / "_delta_log"
    log.mkdir(parents=True)
    (log / ".00000000000000000000.json.tmp").write_text("{")
    land_halves(ledger, 2)
    ledger.assert_landed_once()
    assert DeltaTable(ledger.tables / "half").metadata().partition_columns == ["date"]


def test_a_table_without_its_log_is_named_and_lands_again(ledger: Ledger) -> None:
    land_halves(ledger, 2)
    shutil.rmtree(ledger.tables / "half" / "_delta_log")
    ledger.forget_snapshots()
    with pytest.raises(ResolverError, match=f"remove the folders {ledger.tables / 'half'} and"):
        ledger.land()
    shutil.rmtree(ledger.tables / "half")
    ledger.lose_checkpoint()
    ledger.land()
    ledger.assert_landed_once()


def spoil_rows(ledger: Ledger, spoilt: str) -> Path:
    """Damage a file of a table's rows; return it."""
    (file,) = (ledger.tables / "half").glob("*/*.parquet")
    if spoilt == "lost":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:40])
    return file


def test_two_lands_on_the_same_tables_stop(ledger: Ledger) -> None:
    """With a checkpoint each: neither could know what the other lands."""
    land_halves(ledger, 1)
    first = ledger.query()
    session, another = ledger.spark.newSession(), ledger.home / "another"
    second = land_query(session, ledger.settings, ledger.tables, another)
    until = time.monotonic() + PATIENCE_SECONDS
    while first.isActive and second.isActive:
        assert time.monotonic() < until
        write_halves(ledger, 1)
        time.sleep(0.1)
    (stopped,) = [query for query in (first, second) if not query.isActive][:1]
    failure = stopped.exception()
    assert failure is not None
    told = land_failure(failure, ledger.checkpoint)
    assert told.message.startswith("the query land ended: another land, with another checkpoint")
    assert told.remedy == "stop one of them; what has landed twice is named by the audit"
    for query in (first, second):
        query.stop()


@pytest.mark.parametrize(
    ("folder", "kept"),
    [("offsets", -5), ("offsets", "its first two lines"), ("commits", -5), ("landed", -1)],
)
def test_a_damaged_checkpoint_is_refused_with_the_way_out(
    ledger: Ledger, folder: str, kept: int | str
) -> None:
    land_halves(ledger, 2)
    last = max((ledger.checkpoint / folder).glob("[0-9]*"))
    content = last.read_bytes()
    cut = content[:kept] if isinstance(kept, int) else b"\n".join(content.split(b"\n")[:2])
    last.write_bytes(cut)
    write_halves(ledger, 1)
    with pytest.raises((ResolverError, StreamingQueryException)) as failed:
        ledger.land()
    error = failed.value
    said = error if isinstance(error, ResolverError) else land_failure(error, ledger.checkpoint)
    assert f"remove the folder {ledger.checkpoint} and start again" in str(said)
    ledger.lose_checkpoint()
    ledger.land()
    ledger.assert_landed_once()


def test_after_a_groups_check_topic_was_deleted_land_says_how_to_go_on(ledger: Ledger) -> None:
    ledger.make_topics("payments")
    write_checks(ledger, "payments", 3)
    land_halves(ledger, 2)
    delete_topic(ledger, ledger.names.check("payments"))
    write_halves(ledger, 1)
    for _ in range(2):  # it does not get over it by itself
        land_stopped(ledger, r"check\.payments-0.* have been deleted")
    ledger.lose_checkpoint()
    ledger.land()
    land_halves(ledger, 2)
    ledger.assert_landed_once()


@pytest.mark.parametrize("records", [2, 5])
def test_a_check_topic_that_was_made_again_lands_from_its_beginning(
    ledger: Ledger, records: int
) -> None:
    """Its offsets are those of other records, which the tables have: fewer of them, or more."""
    ledger.make_topics("payments")
    write_checks(ledger, "payments", 3)
    land_halves(ledger, 2)
    delete_topic(ledger, ledger.names.check("payments"))
    land_stopped(ledger, "have been deleted")
    ledger.make_topics("payments")
    write_checks(ledger, "payments", records)
    ledger.lose_checkpoint()
    ledger.land()
    ledger.assert_landed_once()
    ledger.lose_checkpoint()
    land_halves(ledger, 1)
    ledger.assert_landed_once()


@pytest.mark.parametrize("records", [2, 5])
def test_a_topic_made_again_before_land_saw_it_gone_stops_it_too(
    ledger: Ledger, records: int
) -> None:
    """Were it longer than before, land would go on behind records that never landed."""
    ledger.make_topics("payments")
    write_checks(ledger, "payments", 3)
    ledger.land()
    delete_topic(ledger, ledger.names.check("payments"))
    ledger.make_topics("payments")
    write_checks(ledger, "payments", records)
    land_refused(ledger, r"check\.payments was made again since")


def test_a_topic_made_again_while_land_runs_stops_it(ledger: Ledger) -> None:
    ledger.make_topics("payments")
    write_checks(ledger, "payments", 3)
    ledger.land()
    query = ledger.query()
    delete_topic(ledger, ledger.names.check("payments"))
    ledger.make_topics("payments")
    with pytest.raises(StreamingQueryException) as failed:
        query.awaitTermination(PATIENCE_SECONDS)
    remedy = f"remove land's checkpoint, the folder {ledger.checkpoint}, and start"
    assert remedy in str(land_failure(failed.value, ledger.checkpoint))


def test_another_failure_is_told_as_it_is() -> None:
    failure = StreamingQueryException("the disk is full")
    assert str(land_failure(failure, "cp")).startswith("the query land ended: the disk is full")


def write_halves(ledger: Ledger, count: int) -> None:
    ledger.write(*(half(f"id-{n}").to_record(ledger.names.half, 0) for n in range(count)))


def land_halves(ledger: Ledger, count: int) -> None:
    write_halves(ledger, count)
    ledger.land()


def write_checks(ledger: Ledger, group: str, count: int) -> None:
    names, message = ledger.names, half(group=group)
    ledger.write(*(check(names, message)._replace(partition=0) for _ in range(count)))


def copy_checkpoint(ledger: Ledger) -> None:
    shutil.copytree(ledger.checkpoint, ledger.home / "copy")


def put_copy_back(ledger: Ledger) -> None:
    ledger.lose_checkpoint()
    shutil.copytree(ledger.home / "copy", ledger.checkpoint)


def delete_topic(ledger: Ledger, topic: str) -> None:
    admin = admin_client(ledger.settings)
    admin.delete_topics([topic])[topic].result(PATIENCE_SECONDS)
    until = time.monotonic() + PATIENCE_SECONDS
    while topic in admin.list_topics(timeout=PATIENCE_SECONDS).topics:
        assert time.monotonic() < until
        time.sleep(0.05)


def land_refused(ledger: Ledger, why: str) -> None:
    """It is refused before it writes, and the remedy that it names works."""
    versions = [ledger.version(table.name) for table in TABLES]
    write_halves(ledger, 4)
    with pytest.raises(ResolverError, match=why) as refused:
        ledger.land()
    assert f"emove the folder {ledger.checkpoint} and start again" in str(refused.value)
    assert [ledger.version(table.name) for table in TABLES] == versions
    ledger.lose_checkpoint()
    ledger.land()
    ledger.assert_landed_once()


def land_stopped(ledger: Ledger, why: str) -> None:
    with pytest.raises(StreamingQueryException) as failed:
        ledger.land()
    said = land_failure(failed.value, ledger.checkpoint)
    with pytest.raises(ResolverError, match=why):
        raise said
    assert f"remove land's checkpoint, the folder {ledger.checkpoint}, and start" in str(said)
    assert "\n" not in str(said) and "failOnDataLoss" not in str(said)
