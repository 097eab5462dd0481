"""Configuration of Kafka clients: librdkafka here; `java_options` for Spark's Java client."""

from __future__ import annotations

from typing import Any

from confluent_kafka.admin import AdminClient

from ..errors import SettingsError
from ..protocol import Names
from ..settings import Settings
from ..settings.java_options import java_options

__all__ = [
    "LEADER_OPTIONS",
    "PROMPT_OPTIONS",
    "WHOLE_BYTES",
    "admin_client",
    "client_config",
    "reader_config",
    "servers_of",
    "spark_batch_options",
    "spark_kafka_options",
]

#: Bytes of a partition that Kafka sends at once to a reader of our own transactions. In smaller
#: parts a replica that was away may give aborted records (docs/protocol.md, section 7). A message
#: would be taken for delivered, a parked message delivered twice, or a half taken
#: for settled.
WHOLE_BYTES = 50_000_000
#: Options by which a client comes back soon after a lost connection. By default librdkafka forgets
#: the broker if it was the last one, and goes on waiting for it as a coordinator (librdkafka's
#: issue 5456). By default it also waits up to 10 s before it connects again.
PROMPT_OPTIONS = {
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.ms": 100,
    "reconnect.backoff.max.ms": 1_000,
}

#: Options by which a client asks every 2 s who leads. By default a client that was idle while a
#: leader died hears of the next leader only after its first failure. A leader that was cut off from
#: the other brokers takes records, and acknowledges none. By default the producer hears of a later
#: leader after one or two time-outs. Without the second option librdkafka would forget a topic
#: after 6 s; by default it does so after 15 minutes.
LEADER_OPTIONS = {"topic.metadata.refresh.interval.ms": 2_000, "metadata.max.age.ms": 900_000}


def client_config(settings: Settings, **ours: Any) -> dict[str, Any]:
    """Return a librdkafka client's configuration; `ours` wins over the options of [kafka].

    Names with dots are passed as `client_config(settings, **{"group.id": group})`.
    """
    # Log warnings and worse (level 4): below, librdkafka reports its own housekeeping.
    quiet = {"log_level": 4}
    return {**quiet, **settings.kafka, "bootstrap.servers": servers_of(settings), **ours}


def reader_config(settings: Settings, **more: Any) -> dict[str, Any]:
    """Return the configuration of a consumer that only reads: it commits nothing.

    `more` wins over these options, and over the options of [kafka]; see `client_config`.
    """
    ours = {
        "group.id": Names(settings.topic_prefix).reader,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
    }
    return client_config(settings, **{**ours, **more})


def admin_client(settings: Settings) -> AdminClient:
    """Return a client that makes and describes topics; it has nothing to close."""
    # Describing a missing topic must not make it.
    return AdminClient(client_config(settings, **{"allow.auto.create.topics": False}))


def spark_kafka_options(settings: Settings, answer_ms: int = 10_000) -> dict[str, str]:
    """Return the options of connection and security for Spark's Kafka source.

    An answer of Kafka may take `answer_ms`. The options are made from [kafka]; `kafka.*` options of
    [spark] win. Raises `SettingsError` where an
    option has no counterpart in Java.
    """
    overrides = {key: value for key, value in settings.spark.items() if key.startswith("kafka.")}
    translated = java_options(settings.kafka, overrides)
    return {
        "kafka.bootstrap.servers": servers_of(settings),
        # Time in ms that a fetch waits for more records. Spark asks for a partition's end behind
        # such a fetch, on the same connection: Kafka's default of 500 costs a batch half a second
        # for each partition.
        "kafka.fetch.max.wait.ms": "10",
        # Time in ms for an answer. A task keeps its slot while it waits for a broker that hangs:
        # with Kafka's default of 30 s, `land` held up the batches of `resolve` for a minute and a
        # half, until it had asked new leaders for all its partitions.
        "kafka.request.timeout.ms": str(answer_ms),
        **translated,
        **overrides,
    }


def spark_batch_options(settings: Settings) -> dict[str, str]:
    """Return the options of a batch query that reads committed records, with their headers.

    Each running task holds up to `WHOLE_BYTES` of its partition. So may each idle consumer that
    Spark keeps. Kafka may take a minute for an answer: a slow link needs that for `WHOLE_BYTES`.
    `spark.kafka.max.partition.fetch.bytes` of the settings wins.
    """
    return {
        "kafka.max.partition.fetch.bytes": str(WHOLE_BYTES),
        **spark_kafka_options(settings, answer_ms=60_000),
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
    }


def servers_of(settings: Settings) -> str:
    """Return Kafka's brokers; raises `SettingsError` where none are known."""
    if not settings.bootstrap_servers:
        raise SettingsError(
            "bootstrap_servers is empty and no embedded broker runs here",
            remedy="start `txresolver up`, give its --home, or give such as --set "
            "bootstrap_servers=kafka1:9092",
        )
    return settings.bootstrap_servers
