"""Erasure and maintenance beside land, and what the audit makes of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta  # type: ignore[import-untyped]
import polars
import pytest
from pyspark.sql import SparkSession

from resolver.audit.job import audited
from resolver.ledger import TABLES
from resolver.operations import Erasure, Operation, maintain
from resolver.protocol import Act, HalfId
from resolver.protocol import Half as Message
from resolver.settings import Settings
from resolver.spark.running import finish_batch
from resolver.views import Ledger as Views
from tests.support.patience import PATIENCE_SECONDS
from tests.support.tables import Row, outcome, time_at, write_tables
from tests.support.tables import half as half_row

from .ledger import Ledger
from .records import half

#: Files of a day that Delta puts together, after each of land's commits.
_FEWEST_FILES = "spark.databricks.delta.autoCompact.minNumFiles"

_BY_DUCKDB = "SELECT count(*) FROM delta_scan(?) WHERE len(headers) > 0"


@pytest.fixture
def compacting(spark: SparkSession) -> Iterator[None]:
    """Let each of land's commits rewrite the day's files too."""
    spark.conf.set(_FEWEST_FILES, "2")
    yield
    spark.conf.unset(_FEWEST_FILES)


def erase(tables: Path, settings: Settings, *halves: HalfId) -> None:
    now = datetime.now(timezone.utc)
    operation = Operation.begin(Act.ERASE, "", "ada", "asked for", halves, now)
    Erasure(operation, Views(tables=tables), settings).run(lambda _: None)


@pytest.mark.usefixtures("compacting")
def test_land_goes_on_beside_an_erasure_and_maintenance_and_all_engines_read_on(
    ledger: Ledger,
) -> None:
    def send(number: int) -> None:
        ledger.write(half(f"id-{number}", body=b"secret").to_record(ledger.names.half, 0))

    erased = 3
    for number in range(erased):
        send(number)
    ledger.land()
    query = ledger.query()
    for number in range(erased):
        send(erased + number)
        erase(ledger.tables, ledger.settings, HalfId(0, number))
    until = time.monotonic() + PATIENCE_SECONDS
    while len(ledger.rows("half")) < 2 * erased:
        assert query.isActive and time.monotonic() < until
    assert finish_batch(query, PATIENCE_SECONDS)
    ledger.land()
    found = sorted(ledger.rows("half"), key=lambda row: row["offset"])
    assert [row["transaction_id"] for row in found] == [f"id-{n}" for n in range(2 * erased)]
    assert [row["value"] for row in found] == [None] * erased + [b"secret"] * erased
    for _ in maintain(Views(tables=ledger.tables), ledger.settings, tomorrow()):
        pass
    send(2 * erased)
    ledger.land()
    assert all(one == 2 * erased + 1 for one in numbers_by_all_readers(ledger))


def tomorrow() -> datetime:
    return datetime.now(timezone.utc) + timedelta(days=1)


def numbers_by_all_readers(ledger: Ledger) -> list[int]:
    """The number of halves, by each engine that users have, with a column of a list of structs."""
    path = str(ledger.tables / "half")
    duck = duckdb.connect()
    # A path, because DuckDB may want to download what it is told by name.
    (extension,) = Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension")
    duck.execute(f"LOAD '{extension}'")
    return [
        len(ledger.rows("half")),
        ledger.spark.read.format("delta").load(path).where("size(headers) > 0").count(),
        len(polars.read_delta(path).filter(polars.col("headers").list.len() > 0)),
        duck.execute(_BY_DUCKDB, [path]).fetchall()[0][0],
    ]


def message(offset: int) -> Row:
    """A committed half with the record that it came from."""
    sent = Message(
        f"tx-0-{offset}", "orders", "orders.placed", 7, b"key", b"secret", [("a", None)]
    ).to_record("tx.half")
    headers = [{"key": name, "value": value} for name, value in sent.headers]
    return half_row(0, offset, key=sent.key, value=sent.value, headers=headers)


def op(offset: int, seconds: float, word: str, *halves: int) -> Row:
    return {
        "queue": 0,
        "tag": "d",
        "state": f"{word}_MESSAGE",
        "group": "orders",
        "from_check": False,
        "offsets": list(halves),
        "transaction_ids": [f"tx-0-{half}" for half in halves],
        "stored_at": time_at(seconds),
        "source_offset": offset,
    }


def check(row: Row, number: int, **changes: Any) -> Row:
    """A check with another body than its half."""
    named = {name: row[name] for name in ("queue", "offset", "transaction_id", "group")}
    place = {"source_topic": "tx.check.orders", "source_offset": number, "checks": 1}
    return {**named, **place, "key": b"another", "value": b"another", "headers": [], **changes}


def test_the_audit_counts_what_is_erased_and_gone_and_judges_the_rest(
    spark: SparkSession, tmp_path: Path
) -> None:
    """0 to 3 are of the last seconds of a day that goes; what became of them is of the next day.

    10, 11 and 12 stay, and 10 and 11 are erased. The checks of 10 and 12 have another body.
    """
    midnight = 14 * 3_600.0
    old = {"stored_at": time_at(midnight - 9), "source_timestamp": time_at(midnight + 5)}
    gone = [{**message(offset), **half_times(midnight - 9)} for offset in range(4)]
    kept = [{**message(offset), **half_times(midnight + 900)} for offset in (10, 11, 12)]
    of_gone = {name: gone[0][name] for name in ("queue", "transaction_id", "group", "topic")}
    refused = {"reason": "MALFORMED_HALF", "refused_topic": "tx.half", "refused_offset": 3}
    late = {"reason": "CONFLICTING_END", "refused_topic": "tx.op", "refused_offset": 1}
    of_later = {"source_timestamp": time_at(midnight + 5), **of_gone}
    lost = check(gone[1], 0, source_timestamp=time_at(midnight + 1))
    asked = {"source_timestamp": time_at(midnight + 900.5)}
    ends = {"stored_at": time_at(midnight + 900), "op_offset": 3}
    write_tables(
        tmp_path,
        half=[*gone, *kept],
        op=[
            op(0, midnight - 8, "COMMIT", 0),
            op(1, midnight - 7, "ROLLBACK", 0),
            op(2, midnight + 4, "ROLLBACK", 2),
            op(3, midnight + 901, "ROLLBACK", 10, 11, 12),
        ],
        check=[lost, check(kept[0], 1, **asked), check(kept[2], 2, **asked)],
        discarded=[{**lost, "reason": "CHECK_MAX", "source_topic": "tx.discarded"}],
        quarantine=[
            {**of_later, **refused},
            {**of_later, **late, "offset": 0, "element": 0, "source_offset": 1},
        ],
        resolution=[
            outcome(0, 0, "COMMIT", midnight + 1, **old, op_offset=0),
            outcome(0, 1, "DISCARD", midnight + 5, **old, source="LIMIT", op_offset=None,
                    ended_at=None, checks=1, source_offset=1),
            outcome(0, 2, "ROLLBACK", midnight + 5, **old, op_offset=2, source_offset=2),
            outcome(0, 10, "ROLLBACK", midnight + 901.5, **ends, source_offset=3, checks=1),
            outcome(0, 11, "ROLLBACK", midnight + 901.5, **ends, source_offset=4),
            outcome(0, 12, "ROLLBACK", midnight + 901.5, **ends, source_offset=5, checks=1),
        ],
    )  # fmt: skip
    keep = {f"keep_{table.name}_days": 1 for table in TABLES}
    settings = Settings(queues=1, transaction_timeout_ms=1, **keep)  # type: ignore[arg-type]
    done = maintain(Views(tables=tmp_path), settings, time_at(midnight + 86_400))
    assert {one.table for one in done if one.removed} == {"half", "op"}
    erase(tmp_path, settings, HalfId(0, 10), HalfId(0, 11))

    report = audited(spark, settings, str(tmp_path), with_topics=False, examples=9)
    wrong = [
        (one.invariant.value, example.half) for one in report.findings for example in one.examples
    ]
    assert wrong == [("copies", "0:12")]
    counts = report.counts
    assert (counts["halves"], counts["outcomes"], counts["erased_messages"]) == (3, 6, 2)
    assert counts["outcomes_of_halves_or_ops_kept_no_longer"] == 3


def half_times(seconds: float) -> Row:
    return {"stored_at": time_at(seconds), "source_timestamp": time_at(seconds)}
