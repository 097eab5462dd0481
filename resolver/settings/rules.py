"""Rules between settings, and rules of texts: checked whenever `Settings` are made."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from ..errors import SettingsError
from ..protocol.names import MAX_GROUP_LENGTH, MAX_TOPIC_LENGTH, legal_topic

if TYPE_CHECKING:
    from .model import Settings

#: Time in ms by which a request may outlast its transaction at most, for librdkafka.
_SOCKET_TIMEOUT_MARGIN_MS = 100
_SERVER = re.compile(r"(?:\[[0-9a-fA-F:.%]+\]|[a-zA-Z0-9._-]+):([0-9]{1,5})")
#: Where to listen: a name or an IPv4 address. Port 0 takes a free one.
_ADDRESS = re.compile(r"[a-zA-Z0-9._-]+:([0-9]{1,5})")
#: Most characters of a prefix: the longest name is a check topic with the longest legal group.
_MAX_PREFIX = MAX_TOPIC_LENGTH - len("check.") - MAX_GROUP_LENGTH


def check_rules(settings: Settings) -> None:
    """Raise `SettingsError` with the settings' names, their values and the remedy."""
    _check_servers(settings.bootstrap_servers)
    _check_address("metrics_address", settings.metrics_address)
    _check_address("agent_metrics_address", settings.agent_metrics_address)
    _check_prefix(settings.topic_prefix)
    _at_most(settings, "check_thread_pool_min_size", "check_thread_pool_max_size")
    _at_most(settings, "queues", "max_checks_per_batch")
    _check_socket_timeout(settings)
    _check_days(settings)
    if settings.transaction_timeout_ms > settings.file_reserved_ms:
        raise SettingsError(
            f"transaction_timeout_ms is {settings.transaction_timeout_ms}, longer than "
            f"file_reserved_hours ({settings.file_reserved_hours}): a half would expire before "
            "its first check",
            remedy="lower the one or raise the other",
        )


def _check_days(settings: Settings) -> None:
    """Refuse a table that keeps less than `half`: halves would seem to pend, or to be lost."""
    days_of_halves = settings.keep_half_days or math.inf
    for name, days in vars(settings).items():
        if name.startswith("keep_") and (days or math.inf) < days_of_halves:
            raise SettingsError(
                f"{name} is {days}, and keep_half_days is {settings.keep_half_days}: halves would "
                "stay without what became of them",
                remedy="keep the halves for no longer than this; 0 keeps all",
            )


def _check_socket_timeout(settings: Settings) -> None:
    """Refuse a time-out that librdkafka would refuse only when the resolver starts."""
    timeout = settings.kafka.get("socket.timeout.ms")
    most = settings.kafka_transaction_timeout_ms
    if timeout and timeout.isdigit() and int(timeout) > most + _SOCKET_TIMEOUT_MARGIN_MS:
        raise SettingsError(
            f"socket.timeout.ms in [kafka] is {timeout}, longer than kafka_transaction_timeout_ms "
            f"({most}): a request would outlast its transaction",
            remedy="lower the one or raise the other",
        )


def _check_servers(servers: str) -> None:
    for server in servers.split(",") if servers else []:
        match = _SERVER.fullmatch(server.strip())
        if match is None or not 1 <= int(match[1]) <= 65535:
            raise SettingsError(
                f"bootstrap_servers is {servers!r}: {server.strip()!r} is no host:port",
                remedy="give such as 'kafka1:9092,kafka2:9092'",
            )


def _check_address(name: str, address: str) -> None:
    match = _ADDRESS.fullmatch(address)
    if address and (match is None or int(match[1]) > 65535):
        raise SettingsError(
            f"{name} is {address!r}, no host:port",
            remedy="give such as '127.0.0.1:9464', which only this machine reaches, or "
            "'0.0.0.0:9464'",
        )


def _check_prefix(prefix: str) -> None:
    # Refuse an empty prefix: every topic of the cluster would be under it.
    if not legal_topic(prefix + "half") or not 1 <= len(prefix) <= _MAX_PREFIX:
        raise SettingsError(
            f"topic_prefix is {prefix!r}",
            remedy=f"give 1 to {_MAX_PREFIX} of a-z A-Z 0-9 . _ -, such as 'tx.'",
        )


def _at_most(settings: Settings, less: str, more: str) -> None:
    low, high = getattr(settings, less), getattr(settings, more)
    if low > high:
        raise SettingsError(
            f"{less} is {low}, above {more} ({high})", remedy="lower the one or raise the other"
        )
