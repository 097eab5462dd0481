"""What a producer must know of the half and op topics before it starts."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from .errors import SendError, SettingsError
from .protocol import Names

_log = logging.getLogger(__name__)
_DEFAULT_MAX_BYTES = 1_000_000
#: Of what a client hears, what says no more than that it has no broker.
_GENERAL = {KafkaError._ALL_BROKERS_DOWN}


@dataclass(frozen=True, slots=True)
class Queues:
    """How many queues there are, and how large a record of either topic may be."""

    count: int
    half_max_bytes: int
    op_max_bytes: int


class TopicsMissing(SendError):
    """The half or the op topic is not there."""


class _NoAnswer(Exception):
    """No broker has answered."""


def read_queues(options: Mapping[str, Any], names: Names, timeout: float) -> Queues:
    """Ask Kafka; raises `TopicsMissing`, or `SendError` when no broker answers in time.

    An option that librdkafka refuses is a `SettingsError`.
    Describing makes no topic, whatever the broker's settings.
    """
    # Its log goes to the logger in `options`, or rather nowhere, since it is not polled: what
    # matters is in the errors below.
    heard: list[KafkaError] = []
    servers = options["bootstrap.servers"]
    with _admin({**options, "error_cb": heard.append}) as admin:
        try:
            counts = _partitions(admin, servers, names, timeout)
        except _NoAnswer as unanswered:
            admin.poll(0)  # what was heard meanwhile says more than that the time is over
            why = [error.str() for error in heard if error.code() not in _GENERAL]
            raise SendError(
                f"no broker of {servers} answered within {timeout:g} s "
                f"({why[-1] if why else unanswered}); check bootstrap_servers and the security "
                "options in kafka"
            ) from unanswered
        half, op = counts[names.half], counts[names.op]
        if half != op:
            raise SendError(
                f"topic {names.half} has {half} partitions and {names.op} has {op}; a queue is the "
                "same partition of both: `txresolver topics create` says how to put it right"
            )
        half_bytes, op_bytes = (_max_bytes(admin, name, timeout) for name in (names.half, names.op))
        return Queues(half, half_bytes, op_bytes)


def _admin(options: Mapping[str, Any]) -> AdminClient:
    try:
        # Some options are refused without idempotence, which the producer will have.
        return AdminClient({**options, "enable.idempotence": True, "log_level": 4})
    except KafkaException as error:
        raise SettingsError(f"librdkafka refused the options: {error.args[0].str()}") from error


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
            f"topic {name} does not exist on {servers}; make it with `txresolver topics create` "
            "(`txresolver up` does), or give the topic_prefix that was used"
        )
    if reason.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return SendError(f"topic {name} on {servers}: {reason.str()}; grant Write and Describe")
    return _NoAnswer(reason.str())


def _max_bytes(admin: AdminClient, name: str, timeout: float) -> int:
    """Read a topic's max.message.bytes; reading settings needs a right that one may lack."""
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
