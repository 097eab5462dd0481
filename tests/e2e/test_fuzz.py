"""The short form of `scripts/fuzz`: through a running system, into the tables."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from resolver.ledger.landing import land_query
from resolver.settings import Settings
from tests.fuzz.system import SETTINGS, System
from tests.support.world import World

from .conftest import QUEUES, Resolving


def test_whatever_is_sent_nothing_stops_and_nothing_is_missing(
    world: World, resolving: Resolving, spark: SparkSession, tmp_path: Path
) -> None:
    system = System(world, QUEUES, seed=7)
    with resolving(**SETTINGS):
        assert list(system.send(4_000))
        assert system.await_refusals() == []
    settings = Settings(bootstrap_servers=world.bootstrap, topic_prefix=world.prefix)
    tables = tmp_path / "tables"
    landing = land_query(spark, settings, tables, tmp_path / "land", available_now=True)
    landing.awaitTermination()
    assert system.wrong_tables(tables) == []
