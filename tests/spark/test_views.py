"""The ledger on Spark: it answers as the one without a JVM does, and stands in Spark's catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from resolver.errors import LedgerError, NoSuchTransaction
from resolver.spark.session import sql_options
from resolver.views import Filter, HalfId, Ledger
from resolver.views.spark import SparkLedger
from tests.bench.big_ledger import make_ledger
from tests.support.fast_tables import make_older, write_fast
from tests.support.tables import half, identity, outcome, time_at, write_tables

#: Forty of each anomaly.
TRANSACTIONS = 4_000
NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)
SOME = Filter(group="group-1", since=datetime(2026, 1, 1, 0, 0, 20, tzinfo=timezone.utc))


class Both(NamedTuple):
    """One ledger in both forms."""

    without_jvm: Ledger
    on_spark: SparkLedger


@pytest.fixture(scope="module", autouse=True)
def in_few_parts(spark: SparkSession) -> Iterator[None]:
    with sql_options(spark, {"spark.sql.shuffle.partitions": "1"}):
        yield


@pytest.fixture(scope="module")
def both(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """A ledger with every anomaly, and an answer whose group can't be read."""
    home = tmp_path_factory.mktemp("everything")
    make_ledger(home / "tables", TRANSACTIONS, batches=2)
    write_tables(home / "tables", op=[{"queue": 0, "from_check": True, "stored_at": time_at(0)}])
    return Both(Ledger(home, at=NOW), SparkLedger(spark, home, at=NOW))


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "transactions": lambda ledger: ledger.transactions(),
    "pending": lambda ledger: ledger.pending(SOME),
    "failures": lambda ledger: ledger.failures(SOME),
    "groups": lambda ledger: ledger.groups(),
    "rates": lambda ledger: ledger.rates(),
    "latency": lambda ledger: ledger.latency(),
    "timeline": lambda ledger: ledger.timeline(HalfId(1, 23)),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_both_forms_agree_on_a_ledger_with_every_anomaly(both: Both, question: str) -> None:
    without_jvm, on_spark = (QUESTIONS[question](ledger) for ledger in both)
    assert on_spark.columns == without_jvm.column_names
    assert [*rows_of(on_spark)] == without_jvm.to_pylist() != []


def test_both_forms_read_the_same_versions_of_the_past(both: Both) -> None:
    assert both.on_spark.versions == both.without_jvm.versions
    for moment in (datetime(2020, 1, 1), datetime.now(timezone.utc)):
        then = both.on_spark.as_of(moment).versions
        assert then == both.without_jvm.as_of(moment).versions
    with pytest.raises(LedgerError, match="no version of table op is given"):
        _ = both.on_spark.as_of({"half": 1}).versions


def rows_of(found: DataFrame) -> Iterator[dict[str, Any]]:
    """Rows as the form without a JVM has them: Spark returns times in the machine's zone."""
    for row in found.collect():
        yield {
            name: value.astimezone(timezone.utc) if isinstance(value, datetime) else value
            for name, value in row.asDict(recursive=True).items()
        }


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """One that ended, one that nobody was asked about, one that nobody answers, a parked one."""
    asked = [{**identity(0, 2), "checks": n, "source_timestamp": time_at(6 * n)} for n in (1, 2)]
    own = {"refused_topic": "tx.half", "refused_offset": 4, "offset": None, "group": None}
    write_tables(
        tmp_path / "tables",
        half=[half(0, offset, value=b'{"total": %d}' % offset) for offset in range(4)]
        + [half(0, 4, group=None, value=b"no JSON")],
        check=asked,
        quarantine=[
            {**identity(0, 4), **own, "reason": "MALFORMED_HALF", "source_timestamp": time_at(3)}
        ],
        parked=[{**identity(0, 3), "outcome": "COMMIT", "decided_at": time_at(2)}],
        resolution=[outcome(0, 0, "COMMIT")],
    )
    return tmp_path


def assert_rows(found: DataFrame, columns: str, *expected: tuple[Any, ...]) -> None:
    """Compare columns, with their types, in the order of the rows."""
    wanted = found.sparkSession.createDataFrame([*expected], columns)
    assert_df_equality(
        found.select(wanted.columns), wanted, ignore_nullable=True, ignore_metadata=True
    )


def test_what_is_pending_now_and_what_has_changed_since(spark: SparkSession, home: Path) -> None:
    then = SparkLedger(spark, home)
    assert_rows(
        then.pending(),
        "offset long, status string, checks int, next_check_at timestamp, parked_at timestamp",
        (1, "PENDING", 0, time_at(6), None),
        (2, "PENDING", 2, time_at(12 + 60), None),
        (3, "PARKED", 0, None, time_at(2)),
    )
    write_tables(
        home / "tables", half=[half(0, 5)], resolution=[outcome(0, 1, "ROLLBACK", source_offset=1)]
    )
    now = SparkLedger(spark, home)
    assert_rows(
        now.diff(now.as_of(then.versions)),
        "offset long, before string, after string",
        (5, None, "PENDING"),
        (1, "PENDING", "ROLLBACK"),
    )


def test_failures_rates_and_latency_of_a_small_ledger(spark: SparkSession, home: Path) -> None:
    ledger = SparkLedger(spark, home)
    assert_rows(
        ledger.failures(),
        "fingerprint string, count long, example string, first_at timestamp",
        ("MALFORMED_HALF tx.half ?", 1, "0:4", time_at(3)),
    )
    assert_rows(
        ledger.rates(), "minute timestamp, group string, begun long, committed long",
        (time_at(0), "orders", 4, 1),
    )  # fmt: skip
    assert_rows(ledger.latency(), "ended long, p50_ms double, max_ms long", (1, 750.0, 750))


def test_one_transaction_is_found_and_told(spark: SparkSession, home: Path) -> None:
    ledger = SparkLedger(spark, home)
    found = ledger.find("tx-0-2")
    assert found == HalfId(0, 2)
    assert_rows(
        ledger.timeline(found),
        "at timestamp, event string, word string, checks int",
        (time_at(0), "half", "STORED", None),
        (time_at(6), "check", "ASKED", 1),
        (time_at(12), "check", "ASKED", 2),
    )
    with pytest.raises(NoSuchTransaction, match=r'no transaction "it.s"'):
        ledger.find("it's")


def test_a_body_of_json_is_read_as_columns(spark: SparkSession, home: Path) -> None:
    ledger = SparkLedger(spark, home)
    bodies = ledger.bodies("total int").select("offset", "json.*").orderBy("offset")
    expected = [(0, 0), (1, 1), (2, 2), (3, 3), (4, None)]
    assert_rows(bodies, "offset long, total int", *expected)
    taken = ledger.bodies().selectExpr("offset", "variant_get(json, '$.total', 'int') AS total")
    assert_rows(taken.orderBy("offset"), "offset long, total int", *expected)


def test_spark_has_all_views_and_tables_with_comments(spark: SparkSession, home: Path) -> None:
    SparkLedger(spark, home).register("ledger_")
    counted = spark.sql("SELECT reason, count(*) AS n FROM ledger_failed GROUP BY reason")
    assert_rows(counted, "reason string, n long", ("MALFORMED_HALF", 1))
    assert spark.table("ledger_half").count() == 5
    for view, column, comment in (
        (
            "pending",
            "next_check_at",
            "When the next check is due at the latest, by the settings (UTC)",
        ),
        ("half", "born_at", "When the producer made it, by the producer's clock (UTC)"),
    ):
        columns = spark.catalog.listColumns(f"ledger_{view}")
        assert {each.name: each.description for each in columns}[column] == comment


@pytest.mark.parametrize("is_older", [False, True])
def test_both_forms_agree_on_fast_commits_and_on_tables_without_their_columns(
    spark: SparkSession, tmp_path: Path, is_older: bool
) -> None:
    write_fast(tmp_path / "tables")
    if is_older:
        make_older(tmp_path / "tables")
    both = Both(Ledger(tmp_path, at=NOW), SparkLedger(spark, tmp_path, at=NOW))
    questions: tuple[Callable[[Any], Any], ...] = (
        lambda ledger: ledger.transactions(),
        lambda ledger: ledger.pending(),
        lambda ledger: ledger.rates(),
        lambda ledger: ledger.latency(),
        lambda ledger: ledger.timeline(HalfId(0, 1)),
    )
    for question in questions:
        without_jvm, on_spark = (question(ledger) for ledger in both)
        assert on_spark.columns == without_jvm.column_names
        assert [*rows_of(on_spark)] == without_jvm.to_pylist() != []
    if is_older:
        both.on_spark.register("older_")
        delivered = spark.sql("SELECT count(delivery) AS n FROM older_resolution")
        assert_rows(delivered, "n long", (0,))


def test_without_tables_an_error_says_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"no ledger in .*`txresolver up` makes it"):
        SparkLedger(spark, tmp_path).pending()
