"""The notebooks run on tables that the land job made, and on empty ones, and show what is there."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from nbclient import NotebookClient
from pyspark.sql import SparkSession

from resolver.broker import Broker
from resolver.kafka.clients import admin_client, client_config
from resolver.ledger.landing import land_query
from resolver.protocol import Names, Outcome, Record
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS
from tests.support.tables import write_tables

from .story import Story, topics

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = ("transactions", "investigate", "time_travel", "spark")
TRANSACTIONS = 600


class Told(NamedTuple):
    """A story, and the home that it has landed in."""

    story: Story
    home: Path


class Shown(NamedTuple):
    """What a notebook shows: its tables, texts and prints, and how many figures."""

    text: str
    figures: int

    def row(self, first: str, caption: str) -> str:
        """Return the row of a table that begins so."""
        table = self.text[self.text.index(f">{caption}<") :]
        return table[table.index(f">{first}<") :].split("</tr>", 1)[0]


@pytest.fixture(scope="module")
def told(spark: SparkSession, kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """A ledger that has landed in two halves, so that there is a then and a now."""
    home = tmp_path_factory.mktemp("told")
    settings = _with_topics(kafka)
    story = Story(Names(settings.topic_prefix), int(time.time() * 1000) - 120_000)
    records = story.tell(TRANSACTIONS, milliseconds=100_000)
    for part in (records[: len(records) // 2], records[len(records) // 2 :]):
        _write(settings, part)
        _land(spark, settings, home)
    return Told(story, home)


def _with_topics(kafka: Broker) -> Settings:
    """Settings whose topics keep the times that the story gives its records."""
    prefix = f"t{uuid.uuid4().hex[:8]}."
    made = Settings(bootstrap_servers=kafka.bootstrap, topic_prefix=prefix)
    wanted = [
        NewTopic(name, partitions, 1, config={"message.timestamp.type": "CreateTime"})
        for name, partitions in topics(Names(prefix))
    ]
    admin = admin_client(made)
    for topic in admin.create_topics(wanted).values():
        topic.result(PATIENCE_SECONDS)
    return made


def _write(settings: Settings, records: list[Record]) -> None:
    producer = Producer(client_config(settings))
    for r in records:
        partition = max(r.partition, 0)
        producer.produce(
            r.topic, r.value, r.key, partition, timestamp=r.timestamp_ms, headers=list(r.headers)
        )
        producer.poll(0)
    assert producer.flush(PATIENCE_SECONDS) == 0


def _land(spark: SparkSession, settings: Settings, home: Path) -> None:
    query = land_query(spark, settings, home / "tables", home / "checkpoint", available_now=True)
    ended = query.awaitTermination(PATIENCE_SECONDS)
    query.stop()
    assert ended


def run(name: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> Shown:
    monkeypatch.setenv("TXRESOLVER_HOME", str(home))
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    place = {"metadata": {"path": str(FOLDER)}}
    NotebookClient(
        notebook, timeout=PATIENCE_SECONDS, startup_timeout=PATIENCE_SECONDS, resources=place
    ).execute()
    outputs = [
        output
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.get("name") != "stderr"
    ]
    shown = [output.get("data", {}) for output in outputs]
    texts = [
        data.get("text/html") or data.get("text/markdown") or output.get("text", "")
        for data, output in zip(shown, outputs, strict=True)
    ]
    return Shown("\n".join(texts), sum("image/png" in data for data in shown))


@pytest.mark.gate
def test_transactions_are_counted(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run("transactions", told.home, monkeypatch)
    assert f"**{TRANSACTIONS} transactions**" in shown.text
    assert_outcomes(shown, told.story)
    assert shown.figures == 6


def assert_outcomes(shown: Shown, story: Story) -> None:
    for outcome in (Outcome.COMMIT, Outcome.ROLLBACK, Outcome.DISCARD):
        row = shown.row(outcome.value, "Transactions by status")
        assert f">{story.outcomes[outcome]}<" in row


def test_one_is_explained_and_failures_are_grouped(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = run("investigate", told.home, monkeypatch)
    assert "discarded: given up at" in shown.text and "by CHECK_MAX" in shown.text
    assert shown.figures == 4
    conflicts = len(told.story.conflicts)
    fingerprint = f"CONFLICTING_END {told.story.names.op} orders"
    assert f">{conflicts}<" in shown.row(fingerprint, "With one of each, which section 1 can show")


def test_then_and_now_are_compared(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run("time_travel", told.home, monkeypatch)
    committed = shown.row("COMMIT", "Transactions by status")
    assert f">{told.story.outcomes[Outcome.COMMIT]}<" in committed
    assert shown.figures == 2
    assert "**They are the same now.**" in shown.text


def test_a_batch_join_on_spark_agrees_with_the_outcomes(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = run("spark", told.home, monkeypatch)
    assert_outcomes(shown, told.story)
    assert f"**{sum(told.story.outcomes.values())} compared, 0 disagree.**" in shown.text
    assert shown.figures == 1


@pytest.mark.parametrize("name", NAMES)
def test_each_runs_on_empty_tables(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tables(tmp_path / "tables")
    shown = run(name, tmp_path, monkeypatch)
    assert shown.figures == 0
    assert "*No transaction has begun yet.*" in shown.text


@pytest.mark.parametrize("name", NAMES)
def test_each_is_short_and_kept_without_outputs(name: str) -> None:
    cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert all(not cell.outputs for cell in code)
    assert sum(len(cell.source.splitlines()) for cell in code) < 150
