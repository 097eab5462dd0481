"""server.properties of a single-node KRaft broker, as transactions on one machine need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .ports import HOST, Ports

#: Paths are relative to the broker's home, which is its working directory: none needs escaping.
DATA = "data"
FILE = "server.properties"
CONTROLLER_FILE = "controller.properties"


@dataclass(frozen=True)
class Security:
    """The security of a broker that does not accept every client.

    - `properties` are the broker's own, for its listener CLIENTS.
    - `format_arguments` make its users (`--add-scram`).
    - `client` has the options with which a librdkafka client logs in.
    """

    properties: Mapping[str, object] = field(default_factory=dict)
    format_arguments: tuple[str, ...] = ()
    client: Mapping[str, str] = field(default_factory=dict, repr=False)


def write_properties(home: Path, ports: Ports, security: Security) -> None:
    """Write the broker's file, again at each start: the ports may have changed."""
    ours = {**_node(ports), **_topics(), **_one_machine()}
    _write(home / FILE, {**ours, **security.properties})


def write_controller_properties(home: Path, ports: Ports, session_timeout_ms: int) -> None:
    """Write the file of the same node without its broker, which soon counts as gone."""
    shared = ("node.id", "controller.quorum.bootstrap.servers", "controller.listener.names")
    node = _node(ports)
    controller = {
        **{name: node[name] for name in shared},
        "process.roles": "controller",
        "listeners": f"CONTROLLER://{HOST}:{ports.controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "log.dirs": DATA,
        "broker.session.timeout.ms": session_timeout_ms,
        "broker.heartbeat.interval.ms": session_timeout_ms // 2,
        # Write records at once: the controller ends soon after.
        "controller.quorum.append.linger.ms": 0,
    }
    _write(home / CONTROLLER_FILE, controller)


def _write(file: Path, properties: dict[str, object]) -> None:
    lines = [f"{name}={value}" for name, value in properties.items()]
    file.write_text("\n".join(["# Written at each start.", *lines, ""]))


def _node(ports: Ports) -> dict[str, object]:
    controller = f"{HOST}:{ports.controller}"
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.bootstrap.servers": controller,
        "listeners": f"CLIENTS://{HOST}:{ports.kafka},CONTROLLER://{controller}",
        "advertised.listeners": f"CLIENTS://{HOST}:{ports.kafka},CONTROLLER://{controller}",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENTS",
        "log.dirs": DATA,
    }


def _topics() -> dict[str, object]:
    """Return options for topics: one replica of everything, and no topic by a typing error."""
    return {
        "auto.create.topics.enable": "false",
        "num.partitions": 1,
        "default.replication.factor": 1,
        "min.insync.replicas": 1,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 8,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 8,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        # Longest time-out in ms that a client may ask for; the resolver's batches ask for five
        # minutes.
        "transaction.max.timeout.ms": 900_000,
    }


def _one_machine() -> dict[str, object]:
    """Return options for a small broker that answers quickly."""
    return {
        "group.initial.rebalance.delay.ms": 0,
        # Time in ms between looks for transactions to abort. Records behind a killed producer's
        # transaction are released a second after its time-out.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
        "num.network.threads": 2,
        "num.io.threads": 4,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        # Session time-out in ms. A busy machine is no reason to fence the only broker: while it has
        # no leader, Kafka drops pending writes of a transaction's end (see recovery.py).
        "broker.session.timeout.ms": 60_000,
    }
