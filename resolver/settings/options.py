"""Options of [kafka] and [spark]: passed through, except the resolver's own. Secrets are masked."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..errors import SettingsError

MASK = "********"

#: Mask when in doubt: a hidden path costs a look into a file, a shown key costs the cluster.
_SECRET = re.compile(r"pass|secret|token|jaas|credential|private|key|\.pem|auth.*config", re.I)
_SECRET_VALUE = re.compile(r"pass|secret|token|://[^/\s]*@|BEGIN [A-Z ]*KEY", re.I)

_ALWAYS = "every write is acknowledged by all in-sync replicas and never doubled"
_OFFSETS = "offsets are committed only after what was read is done with"
_OURS_KAFKA = {
    "acks": _ALWAYS,
    "request.required.acks": _ALWAYS,
    "enable.idempotence": _ALWAYS,
    "max.in.flight": _ALWAYS,
    "max.in.flight.requests.per.connection": _ALWAYS,
    "transactional.id": "it follows from topic_prefix, so that a second resolver fences the first",
    "transaction.timeout.ms": "set kafka_transaction_timeout_ms instead",
    "bootstrap.servers": "set bootstrap_servers instead",
    "metadata.broker.list": "set bootstrap_servers instead",
    "isolation.level": "everything is read with read_committed",
    "group.id": "an agent consumes in its producer group's name",
    "enable.auto.commit": _OFFSETS,
    "auto.commit.enable": _OFFSETS,
    "enable.auto.offset.store": _OFFSETS,
    "auto.offset.reset": "each consumer knows where it has to begin",
    "partitioner": "committed messages go where Java's default partitioner (murmur2) puts them",
    "message.max.bytes": "clients take what the topic's own max.message.bytes allows",
    "allow.auto.create.topics": "a commit to a missing topic must not make it",
}
_OURS_JAVA = {
    f"kafka.{key}": _OURS_KAFKA[key]
    for key in ("bootstrap.servers", "isolation.level", "group.id", "enable.auto.commit")
} | {"kafka.auto.offset.reset": _OURS_KAFKA["auto.offset.reset"]}
_STATE = "the state's layout is fixed for a checkpoint's life"
_OURS_SPARK = _OURS_JAVA | {
    "spark.sql.session.timeZone": "all times are UTC",
    "spark.sql.shuffle.partitions": _STATE,
    "spark.sql.streaming.stateStore.providerClass": _STATE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": _STATE,
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "counting makes puts slow",
    "spark.sql.adaptive.enabled": "it changes how a replayed batch is cut",
    "spark.speculation": "it changes how a replayed batch is cut",
    "spark.sql.variant.allowDuplicateKeys": "of a field that is given twice the last counts",
    "spark.sql.streaming.noDataMicroBatches.enabled": "a fence wakes an idle query",
    "spark.scheduler.mode": "resolve and land share the executors fairly",
    "spark.sql.extensions": "Delta's tables need their own",
    "spark.sql.catalog.spark_catalog": "Delta's tables need their own",
    "spark.sql.streaming.checkpointLocation": "checkpoints live under --home",
}


def check_kafka(options: Mapping[str, str]) -> None:
    """Refuse librdkafka options that the resolver sets; raises `SettingsError` with the reason."""
    _check("kafka", options, _OURS_KAFKA)


def check_spark(options: Mapping[str, str]) -> None:
    """Refuse Spark settings that the resolver sets, and keys other than spark.* and kafka.*."""
    _check("spark", options, _OURS_SPARK)
    for key in options:
        if not key.startswith(("spark.", "kafka.")):
            raise SettingsError(
                f"{key!r} in [spark] is no Spark setting",
                remedy=f"give spark.{key}, or kafka.{key} for an option of Spark's Kafka client",
            )


def is_secret(key: str, value: str = "") -> bool:
    """Whether an option must not be shown, judged by its name and its value."""
    return bool(_SECRET.search(key) or _SECRET_VALUE.search(value))


def masked(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with secrets replaced by `MASK`."""
    return {key: MASK if is_secret(key, value) else value for key, value in options.items()}


def _check(table: str, options: Mapping[str, str], ours: Mapping[str, str]) -> None:
    for key, value in options.items():
        if not isinstance(key, str) or not key:
            raise SettingsError(
                f"[{table}] has an option without a name", remedy="name it or remove it"
            )
        if not isinstance(value, str):
            raise SettingsError(
                f"{key!r} in [{table}] must be text, not {type(value).__name__}",
                remedy="put it in quotes",
            )
        if key in ours:
            raise SettingsError(
                f"{key!r} can't be set in [{table}]: {ours[key]}", remedy="remove it"
            )


def kafka_refused() -> dict[str, str]:
    """Return the options that can't be in [kafka], with the reasons."""
    return dict(_OURS_KAFKA)


def spark_refused() -> dict[str, str]:
    """Return the options that can't be in [spark], with the reasons."""
    return dict(_OURS_SPARK)


def refused_by_librdkafka(cause: str, reason: str) -> SettingsError:
    """Return the error for options that librdkafka refuses for a reason, with a remedy."""
    if "GSSAPI" not in reason:
        return SettingsError(
            f"{cause}: {reason}", remedy="see librdkafka's CONFIGURATION.md for its options"
        )
    return SettingsError(
        f"{cause}: {reason}. The wheel of confluent-kafka has no Kerberos",
        remedy="build confluent-kafka on a librdkafka with GSSAPI (docs/versions.md), or log in "
        "by SCRAM-SHA-512, OAUTHBEARER, PLAIN or a client's certificate",
    )
