"""Limits of the half and op topics, which a producer reads before it starts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from ..errors import SendError, TopicsMissing
from ..protocol import Names
from ..settings.options import refused_by_librdkafka

_log = logging.getLogger(__name__)
_silent = logging.Logger("start", logging.CRITICAL + 1)
_DEFAULT_MAX_BYTES = 1_000_000
#: Errors that say only that no broker is there; others say more.
_GENERAL = {KafkaError._ALL_BROKERS_DOWN}
#: Time in seconds that brokers have to answer, and pause in seconds before they are asked again.
_LOOK_SECONDS = 5.0
_AGAIN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The number of queues, and the largest record of either topic in bytes."""

    queues: int
    half_max_bytes: int
    op_max_bytes: int


class _NoAnswer(Exception):
    """No broker has answered."""


def read_limits(options: Mapping[str, Any], names: Names, timeout: float) -> TopicLimits:
    """Ask Kafka for the limits, within `timeout` seconds for each question.

    Raises `TopicsMissing`, `SendError` when no broker answers in time, and `SettingsError` when
    librdkafka refuses an option. Describing makes no topic, whatever the broker's settings.
    """
    # Collect errors here. Polling would log each of them once more, some twenty a second.
    heard: list[KafkaError] = []
    servers = options["bootstrap.servers"]
    with admin_of({**options, "error_cb": heard.append, "logger": _silent}) as admin:
        try:
            counts = _partitions(admin, servers, names, timeout)
        except _NoAnswer as unanswered:
            admin.poll(0)  # fetches the errors, which say more than a time-out
            why = [error.str() for error in heard if error.code() not in _GENERAL]
            raise SendError(
                f"no broker of {servers} answered within {timeout:g} s "
                f"({why[-1] if why else unanswered})",
                remedy="check bootstrap_servers and the security options in kafka",
            ) from unanswered
        half, op = counts[names.half], counts[names.op]
        if half != op:
            raise SendError(
                f"topic {names.half} has {half} partitions and {names.op} has {op}; a queue is "
                "the same partition of both",
                remedy="run `txresolver topics create`, which says how to put it right",
            )
        half_bytes, op_bytes = (_max_bytes(admin, name, timeout) for name in (names.half, names.op))
        return TopicLimits(half, half_bytes, op_bytes)


def await_limits(
    options: Mapping[str, Any],
    names: Names,
    waiter: str,
    stopping: threading.Event,
    on_error: Callable[[SendError], object],
) -> TopicLimits | None:
    """Ask until brokers and topics are there; return None if `stopping` is set meanwhile.

    `on_error` gets the error of each try. The log has each new one, as what `waiter` waits for.
    """
    last_warning = ""
    while not stopping.is_set():
        try:
            return read_limits(options, names, _LOOK_SECONDS)
        except SendError as error:
            on_error(error)
            if str(error) != last_warning:
                _log.warning("%s waits: %s", waiter, error)
            last_warning = str(error)
        stopping.wait(_AGAIN_SECONDS)
    return None


def admin_of(options: Mapping[str, Any]) -> AdminClient:
    """Return a client that describes topics; raises `SettingsError` for a refused option."""
    try:
        # Set idempotence, as the producer will: without it some options are refused.
        return AdminClient({**options, "enable.idempotence": True, "log_level": 4})
    except KafkaException as error:
        reason = error.args[0].str()
        raise refused_by_librdkafka("librdkafka refused the options", reason) from error


def _partitions(admin: AdminClient, servers: str, names: Names, timeout: float) -> dict[str, int]:
    topics = TopicCollection([names.half, names.op])
    futures = admin.describe_topics(topics, request_timeout=timeout)
    counts = {}
    for name, future in futures.items():
        try:
            counts[name] = len(future.result(timeout=timeout + 1).partitions)
        except KafkaException as error:
            raise _refused(name, servers, error.args[0]) from error
        except FutureTimeout as error:
            raise _NoAnswer("timed out") from error
    return counts


def _refused(name: str, servers: str, reason: KafkaError) -> Exception:
    if reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return TopicsMissing(
            f"topic {name} does not exist on {servers}",
            remedy="make it with `txresolver topics create` (`txresolver up` does), or give the "
            "topic_prefix that was used",
        )
    if reason.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return SendError(
            f"topic {name} on {servers}: {reason.str()}", remedy="grant Write and Describe"
        )
    return _NoAnswer(reason.str())


def _max_bytes(admin: AdminClient, name: str, timeout: float) -> int:
    """Read a topic's max.message.bytes; without the right to read settings, assume the default."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    futures: list[Future[Any]] = list(
        admin.describe_configs([resource], request_timeout=timeout).values()
    )
    try:
        return int(futures[0].result(timeout=timeout + 1)["max.message.bytes"].value)
    except (KafkaException, FutureTimeout) as error:
        _log.info(
            "max.message.bytes of %s can't be read (%s); %d is taken for it",
            name,
            error,
            _DEFAULT_MAX_BYTES,
        )
        return _DEFAULT_MAX_BYTES
