"""Land's ledger, on the shared broker and Spark session."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from resolver.broker import Broker
from resolver.settings import Settings

from .ledger import Ledger


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
