"""One Spark session for all tests that need one: a JVM takes longer to start than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger import Ledger
from pyspark.sql import SparkSession

from pipelines.session import spark_session
from resolver.broker import Broker
from resolver.settings import Settings


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    home = tmp_path_factory.mktemp("spark")
    session = spark_session(Settings(), "tests", master="local[2]", home=home)
    yield session
    session.stop()


@pytest.fixture
def ledger(spark: SparkSession, kafka: Broker, prefix: str, tmp_path: Path) -> Ledger:
    settings = Settings(
        bootstrap_servers=kafka.bootstrap,
        topic_prefix=prefix,
        queues=2,
        land_trigger_interval_ms=100,
    )
    made = Ledger(spark, settings, tmp_path)
    made.make_topics("orders")
    return made
