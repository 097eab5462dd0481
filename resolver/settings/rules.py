"""What must hold between settings, and of texts: checked whenever `Settings` are made."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..errors import SettingsError
from ..protocol.names import MAX_GROUP_LENGTH, MAX_TOPIC_LENGTH, legal_topic

if TYPE_CHECKING:
    from .model import Settings

_SERVER = re.compile(r"(?:\[[0-9a-fA-F:.%]+\]|[a-zA-Z0-9._-]+):([0-9]{1,5})")
#: The longest topic is that of a group's checks, with the longest legal group.
_MAX_PREFIX = MAX_TOPIC_LENGTH - len("check.") - MAX_GROUP_LENGTH


def check_rules(settings: Settings) -> None:
    """Raise `SettingsError` naming the settings, their values and what to change."""
    _check_servers(settings.bootstrap_servers)
    _check_prefix(settings.topic_prefix)
    _at_most(settings, "check_thread_pool_min_size", "check_thread_pool_max_size")
    _at_most(settings, "queues", "max_checks_per_batch")
    if settings.transaction_timeout_ms > settings.file_reserved_ms:
        raise SettingsError(
            f"transaction_timeout_ms is {settings.transaction_timeout_ms}, longer than "
            f"file_reserved_hours ({settings.file_reserved_hours}): a half would expire before "
            "its first check; lower the one or raise the other"
        )


def _check_servers(servers: str) -> None:
    for server in servers.split(",") if servers else []:
        match = _SERVER.fullmatch(server.strip())
        if match is None or not 1 <= int(match[1]) <= 65535:
            raise SettingsError(
                f"bootstrap_servers is {servers!r}: {server.strip()!r} is no host:port; "
                "give such as 'kafka1:9092,kafka2:9092'"
            )


def _check_prefix(prefix: str) -> None:
    # An empty prefix would put every topic of the cluster under it.
    if not legal_topic(prefix + "half") or not 1 <= len(prefix) <= _MAX_PREFIX:
        raise SettingsError(
            f"topic_prefix is {prefix!r}; give 1 to {_MAX_PREFIX} of a-z A-Z 0-9 . _ -, "
            "such as 'tx.'"
        )


def _at_most(settings: Settings, less: str, more: str) -> None:
    low, high = getattr(settings, less), getattr(settings, more)
    if low > high:
        raise SettingsError(
            f"{less} is {low}, above {more} ({high}); lower the one or raise the other"
        )
