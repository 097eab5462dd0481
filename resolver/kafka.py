"""How Kafka clients are configured: librdkafka's here, Spark's Java client in `java_options`."""

from __future__ import annotations

from typing import Any

from confluent_kafka.admin import AdminClient

from .errors import SettingsError
from .java_options import java_options
from .settings import Settings

__all__ = ["admin_client", "client_config", "spark_kafka_options"]


def client_config(settings: Settings, **ours: Any) -> dict[str, Any]:
    """Return a librdkafka client's configuration; `ours` wins over the options of [kafka].

    Names with dots are passed as `client_config(settings, **{"group.id": group})`.
    """
    # Below warnings, librdkafka speaks of its own housekeeping.
    quiet = {"log_level": 4}
    return {**quiet, **settings.kafka, "bootstrap.servers": _servers(settings), **ours}


def admin_client(settings: Settings) -> AdminClient:
    """Return a client that makes and describes topics; it has nothing to close."""
    return AdminClient(client_config(settings))


def spark_kafka_options(settings: Settings) -> dict[str, str]:
    """Return the connection's and security's options for Spark's Kafka source.

    Made from [kafka]; what [spark] gives as `kafka.*` wins. Raises `SettingsError` where an
    option has no counterpart in Java.
    """
    given = {key: value for key, value in settings.spark.items() if key.startswith("kafka.")}
    translated = java_options(settings.kafka, given)
    return {
        "kafka.bootstrap.servers": _servers(settings),
        # Spark asks for a partition's end behind a fetch that waits for more records, on the same
        # connection: Kafka's default of 500 ms costs a batch half a second for each partition.
        "kafka.fetch.max.wait.ms": "10",
        **translated,
        **given,
    }


def _servers(settings: Settings) -> str:
    if not settings.bootstrap_servers:
        raise SettingsError(
            "bootstrap_servers is empty and no embedded broker runs here; "
            "give such as --set bootstrap_servers=kafka1:9092"
        )
    return settings.bootstrap_servers
