"""A resolver in this process, on the shared broker and Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from resolver.broker import Broker
from resolver.resolve.job import Resolve
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS
from tests.support.world import World

QUEUES = 2

Resolving = Callable[..., AbstractContextManager[Resolve]]


@pytest.fixture
def world(kafka: Broker, prefix: str) -> Iterator[World]:
    world = World(kafka.bootstrap, prefix)
    yield world
    world.close()


@pytest.fixture
def resolving(spark: SparkSession, world: World, tmp_path: Path) -> Resolving:
    """Return what runs a resolver for the length of a `with`; arguments are settings."""

    @contextmanager
    def run(
        checkpoint: str = "resolve", rebuild: bool = False, **settings: Any
    ) -> Iterator[Resolve]:
        fields = {"bootstrap_servers": world.bootstrap, "topic_prefix": world.prefix} | settings
        job = Resolve(spark, Settings(queues=QUEUES, **fields), str(tmp_path / checkpoint))
        try:
            job.start(rebuild)
            yield job
            job.raise_failure()
        finally:
            job.stop(PATIENCE_SECONDS)

    return run
