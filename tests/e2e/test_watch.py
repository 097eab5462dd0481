"""A real Prometheus scrapes a resolver and an agent: dashboard and alerts get their answers."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession

from resolver.audit.job import audited
from resolver.audit.kept import keep
from resolver.broker import Broker
from resolver.ledger.landing import land_query
from resolver.producer.agent import TransactionAgent
from resolver.protocol import Element, Op, Record, TransactionStatus
from resolver.resolve.job import Resolve
from resolver.settings import Settings
from resolver.spark.running import finish_batch
from resolver.views import Ledger
from resolver.watch.agents import AgentMetrics
from resolver.watch.jobs import JobsWatch
from resolver.watch.watch import Watch
from tests.support.panels import draw, panels, queries
from tests.support.patience import wait_until
from tests.support.prometheus import ALERTS, Prometheus, prometheus
from tests.support.world import COMMIT, ROLLBACK, Sent, World

INTERVAL = "10m"
#: Alerts that events of the test must make fire; the others need more time than a test has.
LIVE = {
    "TxResolverAuditViolations",
    "TxResolverConflicts",
    "TxResolverDiscards",
    "TxResolverQuarantine",
    "TxResolverUndeliverable",
}


class Commits:
    def check_local_transaction(self, message: object) -> TransactionStatus:
        return COMMIT


@dataclass
class Scene:
    """What runs, and since when."""

    world: World
    settings: Settings
    tables: Path
    watch: JobsWatch
    prometheus: Prometheus
    began: float

    def value(self, expression: str) -> float:
        """Return the sum of an expression's series; NaN without one."""
        found = self.prometheus.query(f"sum({expression})")
        return float(found[0]["value"][1]) if found else math.nan


@pytest.fixture(scope="module")
def scene(
    spark: SparkSession, kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("watch")
    world = World(kafka.bootstrap, f"{folder.name}.")
    settings = Settings(
        bootstrap_servers=kafka.bootstrap,
        topic_prefix=world.prefix,
        queues=2,
        transaction_timeout_ms=1_000,
        # Long enough for the agent to find its new topic: a half of its group would be discarded.
        transaction_check_interval_ms=15_000,
        transaction_check_max=1,
        count_unanswered_checks=True,
        land_trigger_interval_ms=500,
        metrics_address="127.0.0.1:0",
    )
    job = Resolve(spark, settings, str(folder / "resolve"))
    metrics = AgentMetrics()
    with (
        JobsWatch(settings, ("resolve", "land")) as watch,
        Watch("127.0.0.1:0") as of_agent,
        prometheus(
            folder / "prometheus",
            {
                "txresolver": watch.url.removeprefix("http://"),
                "txresolver-agent": of_agent.url.removeprefix("http://"),
            },
        ) as asked,
    ):
        began = time.time()
        of_agent.show(metrics.values)
        land = None
        try:
            job.start()
            watch.resolve(job)
            land = land_query(spark, settings, folder / "tables", folder / "land")
            watch.land(land, str(folder / "tables"))
            listener = Commits()
            with TransactionAgent(
                "orders", kafka.bootstrap, listener, topic_prefix=world.prefix, end_hooks=[metrics]
            ) as agent:
                metrics.watch(agent)
                made = Scene(world, settings, folder / "tables", watch, asked, began)
                happen(made, spark)
                yield made
        finally:
            watch.rest()
            job.stop(30)
            if land is not None:
                finish_batch(land, 30)
            world.close()


def happen(scene: Scene, spark: SparkSession) -> None:
    """Let all happen that a metric counts, after Prometheus has seen that nothing has."""
    world = scene.world
    wait_until(lambda: scene.value("txresolver_quarantined_total") == 0)
    world.send_half()  # the agent commits it
    world.send_half(group="dead")  # is given up
    immune = {"immunity_seconds": 3_600}  # nobody asks before its end comes
    world.send_half(**immune)  # stays pending
    committed = world.send_halves([world.message(**immune) for _ in range(40)], 0)
    rolled_back = world.send_halves([world.message(**immune) for _ in range(4)], 1)
    world.end(*committed)
    world.end(*rolled_back, state=ROLLBACK)
    world.end(world.send_half(topic="nowhere", **immune))
    by_hand(scene, world.send_half(**immune))
    world.end(committed[0], state=ROLLBACK)  # conflicts
    world.produce([Record(world.names.op, None, b"not JSON", [("TAGS", b"d")], 0)])
    world.resolutions(48)
    world.quarantined(2)
    counts = "txresolver_finish_message_latency_seconds_count"
    wait_until(lambda: scene.value(counts) == 48)
    wait_until(lambda: scene.value("txresolver_quarantined_total") == 2)
    report = audited(spark, scene.settings, str(scene.tables), False, 1)
    assert report.holds, report.lines()
    keep(spark, str(scene.tables), report, False)
    wait_until(lambda: scene.value("txresolver_audit_violations") == 0)
    first, *others = report.findings
    wrong = replace(report, findings=(replace(first, violations=2), *others))
    keep(spark, str(scene.tables), wrong, False)


def by_hand(scene: Scene, sent: Sent) -> None:
    element = Element(0, sent.offset, sent.half.transaction_id)
    op = Op(COMMIT, sent.half.group, (element,), actor="eve")
    scene.world.produce([op.to_record(scene.world.names.op, sent.queue)])


def test_every_query_of_the_dashboard_has_an_answer(scene: Scene, tmp_path: Path) -> None:
    asked = [one for panel in panels() for one, _ in queries(panel, INTERVAL)]
    empty = [one for one in asked if not has_numbers(scene.prometheus, one)]
    assert empty == []
    picture = tmp_path / "dashboard.png"
    draw(scene.prometheus, scene.began, time.time(), INTERVAL, picture, "txresolver")
    assert picture.stat().st_size > 50_000


def has_numbers(asked: Prometheus, expression: str) -> bool:
    return any(not math.isnan(float(series["value"][1])) for series in asked.query(expression))


def test_every_metric_that_an_alert_looks_at_is_there(scene: Scene) -> None:
    text = ALERTS.read_text(encoding="utf-8")
    selectors = set(re.findall(r"(?:txresolver_|\bup)\w*(?:\{[^}]*\})?", text))
    selectors = {one for one in selectors if one.startswith(("txresolver_", "up{"))}
    assert len(selectors) > 15
    silent = {'txresolver_pending_messages{status="PARKED"}'}  # no message is parked here
    empty = {one for one in selectors if not has_numbers(scene.prometheus, one)}
    assert empty == silent & selectors


def test_alerts_fire_for_what_happened(scene: Scene) -> None:
    wait_until(lambda: scene.prometheus.firing() >= LIVE)


def test_metrics_agree_with_the_ledger(scene: Scene) -> None:
    asked = "SELECT t.status, count(*) AS n FROM transactions t GROUP BY t.status"
    statuses = Ledger(tables=scene.tables).sql(asked).to_pylist()
    counts = {row["status"]: row["n"] for row in statuses}
    for status in ("COMMIT", "ROLLBACK", "DISCARD", "UNDELIVERABLE"):
        name = f"txresolver_{status.lower()}_messages_total"
        assert scene.value(name) == counts[status]
    assert scene.value("txresolver_half_messages") == counts["PENDING"] == 1
    assert scene.value("txresolver_operator_acts_total") == 1


def test_it_is_ready(scene: Scene) -> None:
    with urlopen(f"{scene.watch.url}/readyz", timeout=30) as answer:  # noqa: S310
        assert answer.read() == b"ok\n"
