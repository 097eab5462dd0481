"""The Kafka of a test."""

from __future__ import annotations

from dataclasses import dataclass

from ..kafka.clients import admin_client
from ..kafka.topics import ensure_real_topics, ensure_topics
from ..settings import Settings

__all__ = ["LocalKafka"]


@dataclass(frozen=True)
class LocalKafka:
    """A real Kafka with the protocol's topics; a resolver does not run on it.

    Attributes:
        bootstrap_servers: Its address, for producers and consumers.

    Example:
        ```python
        def test_an_order_is_placed(txresolver_kafka):
            txresolver_kafka.make_topics("orders.placed")
            servers = txresolver_kafka.bootstrap_servers
            with TransactionProducer("orders", servers, listener) as producer:
                place_order(producer, "lamp")
        ```
    """

    bootstrap_servers: str

    def make_topics(self, *topics: str, partitions: int = 4) -> None:
        """Make real topics, and the protocol's where they are missing; existing ones stay."""
        settings = Settings(bootstrap_servers=self.bootstrap_servers)
        admin = admin_client(settings)
        ensure_topics(admin, settings)
        ensure_real_topics(admin, settings, topics, partitions)
