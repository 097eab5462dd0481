"""The notebook runs on tables that the land job made, empty ones too, and shows what is in them."""

from __future__ import annotations

import time
from pathlib import Path

import nbformat
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from nbclient import NotebookClient
from pyspark.sql import SparkSession
from story import Story, topics

from pipelines.land import land_query
from resolver.broker import Broker
from resolver.kafka import admin_client, client_config
from resolver.protocol import Names, Outcome, Record
from resolver.settings import Settings

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "transactions.ipynb"
TIMEOUT_SECONDS = 120


@pytest.fixture
def settings(kafka: Broker, prefix: str) -> Settings:
    """Settings whose topics keep the times that the story gives its records."""
    made = Settings(bootstrap_servers=kafka.bootstrap, topic_prefix=prefix)
    wanted = [
        NewTopic(name, partitions, 1, config={"message.timestamp.type": "CreateTime"})
        for name, partitions in topics(Names(prefix))
    ]
    admin = admin_client(made)
    for topic in admin.create_topics(wanted).values():
        topic.result(TIMEOUT_SECONDS)
    return made


def write(settings: Settings, records: list[Record]) -> None:
    producer = Producer(client_config(settings))
    for r in records:
        partition = max(r.partition, 0)
        producer.produce(
            r.topic, r.value, r.key, partition, timestamp=r.timestamp_ms, headers=r.headers
        )
        producer.poll(0)
    assert producer.flush(TIMEOUT_SECONDS) == 0


def land(spark: SparkSession, settings: Settings, home: Path) -> None:
    query = land_query(spark, settings, home / "tables", home / "checkpoint", available_now=True)
    ended = query.awaitTermination(TIMEOUT_SECONDS)
    query.stop()
    assert ended


def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, int]:
    """Run the notebook on `home`; return all its tables and texts, and how many plots it drew."""
    monkeypatch.setenv("TXRESOLVER_HOME", str(home))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=TIMEOUT_SECONDS).execute(cwd=str(home))
    shown = [
        output.get("data", {})
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]
    texts = [data.get("text/html") or data.get("text/markdown") or "" for data in shown]
    return "\n".join(texts), sum("image/png" in data for data in shown)


def test_it_shows_what_happened(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(Names(settings.topic_prefix), int(time.time() * 1000) - 120_000)
    write(settings, story.tell(transactions=600, milliseconds=100_000))
    land(spark, settings, tmp_path)
    texts, plots = run(tmp_path, monkeypatch)
    assert plots == 6
    for outcome in (Outcome.COMMIT, Outcome.ROLLBACK, Outcome.DISCARD):
        assert f">{story.outcomes[outcome]}<" in row_of(texts, f"ended by {outcome.value}")
    assert ">600<" in row_of(texts, "transactions begun")
    assert "DISCARD, by LIMIT" in texts  # the life of the one that was checked most often


def row_of(html: str, first: str) -> str:
    return html[html.index(f">{first}<") :].split("</tr>", 1)[0]


def test_it_runs_on_empty_tables(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(spark, settings, tmp_path)
    texts, plots = run(tmp_path, monkeypatch)
    assert plots == 0
    assert "No transaction has begun yet" in texts


def test_it_is_kept_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.outputs for cell in cells if cell.cell_type == "code")
