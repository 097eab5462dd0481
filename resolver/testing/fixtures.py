"""Fixtures for pytest: `pytest_plugins = ["resolver.testing.fixtures"]` in a conftest.py.

| fixture | |
| --- | --- |
| `txresolver_kafka` | a real Kafka for the whole run, with the protocol's topics |
| `txresolver_verify` | used by itself: producers verify their commits |
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ..broker import Broker
from ..producer.verifier import VARIABLE
from .kafka import LocalKafka

__all__ = ["txresolver_kafka", "txresolver_verify"]


@pytest.fixture(scope="session")
def txresolver_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """A real Kafka, on a free port, that ends with the run. The first run fetches its jars."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        kafka = LocalKafka(broker.bootstrap)
        kafka.make_topics()
        yield kafka


@pytest.fixture(scope="session", autouse=True)
def txresolver_verify() -> Iterator[None]:
    """Let producers verify their commits, unless TXRESOLVER_VERIFY is set already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, os.environ.get(VARIABLE, "1"))
        yield
