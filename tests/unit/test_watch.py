"""Metrics, health and JSON logs, on ledgers made by hand."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from prometheus_client.parser import text_string_to_metric_families

from resolver.errors import SettingsError, how_to_install
from resolver.settings import Settings
from resolver.views import Ledger
from resolver.watch.health import Health
from resolver.watch.json_log import JsonFormatter
from resolver.watch.ledger import ledger_values
from resolver.watch.metrics import COUNTER, HISTOGRAM, METRICS, Buckets, Value
from resolver.watch.source import Source
from resolver.watch.watch import Watch
from resolver.watch.watching import watching
from tests.support.tables import half, identity, outcome, time_at, write_tables

LABELS = ("orders", "orders.placed")


@pytest.fixture
def tables(tmp_path: Path) -> str:
    """Two commits, a rollback, a discard, a pending half that nobody answers, a refused end."""
    folder = tmp_path / "tables"
    write_tables(
        folder,
        half=[half(0, offset) for offset in range(5)],
        op=[
            {**identity(0, 2), "state": "ROLLBACK_MESSAGE", "from_check": True, "offsets": [2]},
            {**identity(0, 1), "state": "COMMIT_MESSAGE", "actor": "eve", "from_check": False},
        ],
        check=[{**identity(0, offset), "checks": 1} for offset in (2, 4)],
        quarantine=[{**identity(0, 0), "reason": "CONFLICTING_END", "error": "no"}],
        resolution=[
            outcome(0, 0, "COMMIT", 1.0, source_timestamp=time_at(1.2)),
            outcome(0, 1, "COMMIT", 20.0, source_timestamp=time_at(21.0)),
            outcome(0, 2, "ROLLBACK", 2.0, source_timestamp=time_at(2.1)),
            outcome(0, 3, "DISCARD", 3.0, source_timestamp=time_at(3.1), ended_at=None),
        ],
    )
    return str(folder)


def figures(tables: str) -> dict[tuple[str, tuple[str, ...]], float | Buckets]:
    return {(one.name, one.labels): one.value for one in ledger_values(Settings(), tables)}


def test_figures_are_those_of_the_tables(tables: str) -> None:
    found = figures(tables)
    assert found["txresolver_commit_messages_total", LABELS] == 2
    assert found["txresolver_rollback_messages_total", LABELS] == 1
    assert found["txresolver_discard_messages_total", LABELS] == 1
    assert found["txresolver_pending_messages", ("orders", "PENDING")] == 1
    assert found["txresolver_unanswered_messages", ("orders",)] == 1
    assert (
        found["txresolver_oldest_pending_timestamp_seconds", ("orders",)] == time_at(0).timestamp()
    )
    assert found["txresolver_checks_sent_total", ("orders",)] == 2
    assert found["txresolver_checks_answered_total", ("orders", "ROLLBACK_MESSAGE")] == 1
    assert found["txresolver_quarantined_total", ("CONFLICTING_END",)] == 1
    assert found["txresolver_operator_acts_total", ("COMMIT_MESSAGE",)] == 1


def test_figures_agree_with_what_the_ledger_answers(tables: str) -> None:
    found, ledger = figures(tables), Ledger(tables=tables)
    statuses = {row["status"]: row["count"] for row in ledger.statuses().to_pylist()}
    for status in ("COMMIT", "ROLLBACK", "DISCARD"):
        name = f"txresolver_{status.lower()}_messages_total"
        assert found[name, LABELS] == statuses[status]
    assert found["txresolver_pending_messages", ("orders", "PENDING")] == statuses["PENDING"]
    (group,) = ledger.groups().to_pylist()
    assert found["txresolver_unanswered_messages", ("orders",)] == group["unanswered"]
    refused = {row["reason"]: row["count"] for row in ledger.failures().to_pylist()}
    assert found["txresolver_quarantined_total", ("CONFLICTING_END",)] == refused["CONFLICTING_END"]


def test_latency_is_from_the_half_and_from_the_op_to_the_stored_outcome(tables: str) -> None:
    found = figures(tables)
    finished = found["txresolver_finish_message_latency_seconds", ("COMMIT",)]
    assert isinstance(finished, Buckets)
    assert finished.total == 2
    assert finished.sum == pytest.approx(22.2)
    assert (finished.counts[1.0], finished.counts[2.5], finished.counts[60.0]) == (0, 1, 2)
    visible = found["txresolver_commit_latency_seconds", ()]
    assert isinstance(visible, Buckets)
    assert visible.total == 2
    assert visible.sum == pytest.approx(0.7 + 1.5)


def test_a_message_that_its_producer_delivered_has_no_time_until_it_is_visible(
    tmp_path: Path,
) -> None:
    fast = outcome(0, 0, "COMMIT", delivery="FAST")
    write_tables(tmp_path, resolution=[fast, outcome(0, 1, "COMMIT")])
    found = figures(str(tmp_path))
    finished = found["txresolver_finish_message_latency_seconds", ("COMMIT",)]
    visible = found["txresolver_commit_latency_seconds", ()]
    assert isinstance(finished, Buckets) and isinstance(visible, Buckets)
    assert (finished.total, visible.total) == (2, 1)
    assert found["txresolver_commit_messages_total", LABELS] == 2


def test_what_has_not_happened_yet_is_0_so_that_its_first_time_is_an_increase(tables: str) -> None:
    found = figures(tables)
    assert found["txresolver_quarantined_total", ("LATE_END",)] == 0
    assert found["txresolver_operator_acts_total", ("ROLLBACK_MESSAGE",)] == 0
    never = found["txresolver_finish_message_latency_seconds", ("UNDELIVERABLE",)]
    assert isinstance(never, Buckets) and never.total == 0


def test_made_up_groups_are_a_hundred_series_and_lose_no_transaction(tmp_path: Path) -> None:
    rows = [outcome(0, n, "COMMIT", group=f"g{n:04}") for n in range(150)]
    write_tables(tmp_path, resolution=rows)
    commits = {
        labels: value
        for (name, labels), value in figures(str(tmp_path)).items()
        if name == "txresolver_commit_messages_total"
    }
    assert len(commits) == 101
    assert sum(value for value in commits.values() if isinstance(value, (int, float))) == 150
    assert commits["(others)", "(others)"] == 50


def test_the_last_audit_counts(tables: str) -> None:
    assert not any(name.startswith("txresolver_audit") for name, _ in figures(tables))
    for seconds, violations in ((0, 3), (60, 1)):
        row = {
            "audited_at": time_at(seconds),
            "with_topics": False,
            "violations": [("copies", violations)],
        }
        types = {
            "audited_at": pa.timestamp("us", "UTC"),
            "with_topics": pa.bool_(),
            "violations": pa.map_(pa.string(), pa.int64()),
        }
        write_deltalake(
            f"{tables}/audit", pa.Table.from_pylist([row], pa.schema(types)), mode="append"
        )
    found = figures(tables)
    assert found["txresolver_audit_violations", ("copies",)] == 1
    assert found["txresolver_audit_timestamp_seconds", ()] == time_at(60).timestamp()


@pytest.fixture
def watch() -> Iterator[Watch]:
    with Watch("127.0.0.1:0") as watch:
        yield watch


def get(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=30) as answer:  # noqa: S310 - our own server
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_prometheus_reads_what_is_served(watch: Watch, tables: str) -> None:
    watch.show(lambda: ledger_values(Settings(), tables))
    status, text = get(f"{watch.url}/metrics")
    assert status == 200
    families = {family.name: family for family in text_string_to_metric_families(text)}
    ours = {name: family for name, family in families.items() if name.startswith("txresolver_")}
    for name, family in ours.items():
        known = METRICS[f"{name}_total" if family.type == COUNTER else name]
        assert (family.type, family.documentation) == (known.kind, known.about)
    assert ours["txresolver_finish_message_latency_seconds"].type == HISTOGRAM
    assert "process_cpu_seconds" in families


def test_a_process_is_ready_when_its_parts_are(watch: Watch) -> None:
    land = threading.Event()
    watch.health.needs("resolve", lambda: True)
    watch.health.needs("land", land.is_set)
    assert get(f"{watch.url}/readyz") == (503, "not ready: land\n")
    assert get(f"{watch.url}/livez") == (200, "ok\n")
    land.set()
    assert get(f"{watch.url}/readyz") == (200, "ok\n")
    assert get(f"{watch.url}/other")[0] == 404


def test_a_loop_that_hangs_is_not_alive_and_a_part_that_fails_is_not_ready() -> None:
    now = 0.0
    health = Health(lambda: now)
    assert health.not_live() == ""
    health.beat()
    now = 121.0
    assert health.not_live() == health.not_ready() == "the main loop hangs for 121 s"
    health.beat()
    health.needs("resolve", lambda: bool(1 / 0))
    assert health.not_ready() == "not ready: resolve"


def test_an_address_that_is_taken_is_refused(watch: Watch) -> None:
    taken = watch.url.removeprefix("http://")
    with pytest.raises(SettingsError, match=f"metrics can't be served at {taken}: .* in use"):
        Watch(taken)


@pytest.mark.parametrize("address", ["9464", "127.0.0.1:70000", "http://127.0.0.1:9464"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(SettingsError, match=r"metrics_address is .*127.0.0.1:9464"):
        Settings(metrics_address=address)


def test_a_source_that_fails_keeps_its_figures_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = [[Value("txresolver_marker_batch", (), 7)]]
    source = Source("kafka", answers.pop, 0.0)
    caplog.set_level(logging.INFO, "resolver")
    for _ in range(3):
        source._read_once()
    assert source.values == [Value("txresolver_marker_batch", (), 7)]
    assert caplog.messages == ["figures of kafka can't be read now: IndexError"]


def test_a_log_line_in_json_has_the_transaction_and_no_body() -> None:
    record = logging.makeLogRecord(
        {
            "name": "resolver.producer.agent.check_log",
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": "transaction %s: %s",
            "args": ("tx-1", "no answer"),
            "created": 1_769_853_600.25,
            "transaction_id": "tx-1",
            "body": b"secret",
        }
    )
    assert json.loads(JsonFormatter().format(record)) == {
        "time": "2026-01-31T10:00:00.250Z",
        "level": "warning",
        "logger": "resolver.producer.agent.check_log",
        "message": "transaction tx-1: no answer",
        "transaction_id": "tx-1",
    }


def test_half_a_surrogate_pair_costs_a_log_line_in_json_one_character() -> None:
    """An application may write any remark, and a file may have any name."""
    line = logging.makeLogRecord({"msg": "no \udcfe.txt", "transaction_id": "tx-\ud800"})
    said = json.loads(JsonFormatter().format(line))
    assert (said["message"], said["transaction_id"]) == ("no ?.txt", "tx-?")


def test_without_the_extra_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from resolver.settings import Settings; from resolver.watch.watching import watching\n"
        "with watching(Settings(metrics_address='127.0.0.1:0'), 'resolve'): pass"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    said = f"metrics_address is set, which needs prometheus_client: {how_to_install('metrics')}"
    assert said in done.stderr


def test_without_an_address_nothing_is_served_and_nothing_is_needed() -> None:
    with watching(Settings(), "resolve") as none:
        assert none is None
