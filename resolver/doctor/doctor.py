"""The whole examination."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined]

from ..errors import NoBroker, SettingsError
from ..kafka.clients import admin_client
from ..kafka.reach import await_broker
from ..settings import Settings
from ..up.home import Home
from .access import access
from .agents import agents
from .checkpoints import checkpoint, tables
from .clocks import clocks
from .cluster import brokers, partitions, topics
from .finding import Finding, error, looked, warning
from .machine import machine
from .transactions import transactions

#: Time in seconds for the first answer of a broker, and for its metadata.
_PATIENCE_SECONDS = 10.0


def examine(settings: Settings, home: Home, roles: Collection[str]) -> Iterator[Finding]:
    """Yield all findings, in the order in which a start would meet them."""
    yield from looked("machine", lambda: machine(home.path))
    yield from looked("tables", lambda: tables(home))
    if not settings.bootstrap_servers:
        yield warning(
            "connection",
            f"no servers are set, and no broker runs in {home.path}: Kafka was not looked at",
            "start `txresolver up`, or give --bootstrap-servers",
        )
        return
    try:
        await_broker(settings, _PATIENCE_SECONDS)
    except (NoBroker, SettingsError) as failed:
        yield error("connection", str(failed), "see there; nothing else of Kafka was looked at")
        return
    admin = admin_client(settings)
    yield from _kafka(admin, admin.list_topics(timeout=_PATIENCE_SECONDS), settings, home, roles)


def _kafka(
    admin: AdminClient,
    cluster: ClusterMetadata,
    settings: Settings,
    home: Home,
    roles: Collection[str],
) -> Iterator[Finding]:
    yield from looked("brokers", lambda: brokers(admin, cluster, settings))
    yield from looked("partitions", lambda: partitions(cluster, settings))
    yield from looked("transactions", lambda: transactions(admin, cluster, settings))
    yield from looked("topics", lambda: topics(admin, cluster, settings))
    yield from looked("rights", lambda: access(admin, cluster, settings, roles))
    yield from looked("clocks", lambda: clocks(cluster, settings))
    yield from looked("groups", lambda: agents(admin, cluster, settings))
    yield from looked("checkpoint", lambda: checkpoint(home, settings))
