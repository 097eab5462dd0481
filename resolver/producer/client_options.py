"""Options of an application's Kafka clients, and producers made with them.

The application's options are checked. They win over our defaults, and what the protocol needs wins
over them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer

from ..errors import SettingsError
from ..kafka.clients import LEADER_OPTIONS
from ..settings.options import check_kafka, refused_by_librdkafka

_log = logging.getLogger(__name__)
#: Logger of librdkafka's own lines, which come when the connection is polled.
_kafka_log = logging.getLogger("resolver.librdkafka")
# Hide warnings about options of the other kind of client: one dictionary serves producers and
# consumers, and each warns of the other's options.
_kafka_log.addFilter(lambda line: "property and will be ignored by" not in line.getMessage())
#: Size in bytes above any topic's limit. The topic's own limit is checked before, with a clearer
#: error.
CLIENT_MAX_BYTES = 1_000_000_000
BATCH_BYTES = 1_000_000
IN_FLIGHT = 3
_SILENT_MS = 10_000
_OURS = {
    "delivery.report.only.error": "a half is sent when its acknowledgement arrives",
    "default.topic.config": "give its options at the top",
    "on_delivery": "the producer follows its own acknowledgements",
    "logger": "configure the logger 'resolver.librdkafka'",
}


def client_options(
    bootstrap_servers: str, kafka: Mapping[str, Any] | None, group: str, **ours: Any
) -> dict[str, Any]:
    """Return a client's librdkafka options; `ours` win. Raises `SettingsError` with a reason."""
    if not isinstance(bootstrap_servers, str) or not bootstrap_servers.strip():
        raise SettingsError(
            f"bootstrap_servers is {bootstrap_servers!r}",
            remedy="give Kafka's brokers, such as 'kafka1:9092,kafka2:9092'",
        )
    user_options = dict(kafka or {})
    for key in user_options:
        if key in _OURS:
            raise SettingsError(f"{key!r} can't be set in kafka: {_OURS[key]}", remedy="remove it")
    check_kafka(
        {key: value if isinstance(value, str) else "-" for key, value in user_options.items()}
    )
    return {
        "client.id": f"txresolver-{group}",
        # Time in ms after which a silent broker is given up; librdkafka's default is a minute.
        "socket.timeout.ms": _SILENT_MS,
        **{key: _guarded(key, value) for key, value in user_options.items()},
        "bootstrap.servers": bootstrap_servers,
        "logger": _kafka_log,
        **ours,
    }


def check_producer_options(options: Mapping[str, Any]) -> None:
    """Make a producer without brokers; raises `SettingsError` if librdkafka refuses an option."""
    trial = producer_options(options, BATCH_BYTES)
    for name in ("bootstrap.servers", "oauth_cb"):  # a producer with the latter asks for a token
        trial.pop(name, None)
    new_producer(trial).close()


def producer_options(options: Mapping[str, Any], batch_bytes: int) -> dict[str, Any]:
    """Return the options of a producer, from those of a client."""
    return {
        # Send at once: callers wait for halves. Records that come during a request share the
        # next one in any case. Moreover librdkafka busy-waits through a wait of less than a
        # millisecond.
        "linger.ms": 0,
        "batch.size": min(batch_bytes, BATCH_BYTES),
        **LEADER_OPTIONS,
        **options,
        "acks": "all",
        "enable.idempotence": True,
        # Limit the requests under way. With more, librdkafka busy-waits, since idempotence
        # allows five in a partition. Records that come meanwhile share a request.
        "max.in.flight": IN_FLIGHT,
        "message.max.bytes": CLIENT_MAX_BYTES,
    }


def new_producer(options: Mapping[str, Any]) -> Producer:
    """Make a producer; raises `SettingsError` if librdkafka refuses an option."""
    try:
        return Producer(dict(options))
    except KafkaException as error:
        reason = error.args[0].str()
        raise refused_by_librdkafka("librdkafka refused an option", reason) from error


def _guarded(key: str, value: Any) -> Any:
    """Wrap a callback to log its exception: in the poll that calls it, it would cost a message."""
    if not callable(value) or key == "oauth_cb":  # librdkafka must see that there is no token
        return value

    def call(*args: Any) -> None:
        try:
            value(*args)
        except BaseException:
            _log.exception("%s of the kafka options failed", key)

    return call
