"""One Spark session for all tests that need one: a JVM takes longer to start than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pipelines.session import spark_session
from resolver.settings import Settings


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    home = tmp_path_factory.mktemp("spark")
    session = spark_session(Settings(), "tests", master="local[2]", home=home)
    yield session
    session.stop()
