"""server.properties of a single-node KRaft broker, as transactions on one machine need it."""

from __future__ import annotations

from pathlib import Path

from .ports import HOST, Ports

#: Relative to the broker's home, which is its working directory: no path needs escaping.
DATA = "data"
FILE = "server.properties"


def write_properties(home: Path, ports: Ports) -> None:
    """Write the file anew at each start: the ports may have changed."""
    lines = [f"{name}={value}" for name, value in _properties(ports).items()]
    (home / FILE).write_text("\n".join(["# Written at each start.", *lines, ""]))


def _properties(ports: Ports) -> dict[str, object]:
    return {**_node(ports), **_topics(), **_one_machine()}


def _node(ports: Ports) -> dict[str, object]:
    controller = f"{HOST}:{ports.controller}"
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.bootstrap.servers": controller,
        "listeners": f"PLAINTEXT://{HOST}:{ports.kafka},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{ports.kafka},CONTROLLER://{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": DATA,
    }


def _topics() -> dict[str, object]:
    """One replica of everything; a topic is made by whoever means to, never by a typing error."""
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
        # The most that a client may ask for; the resolver's batches ask for five minutes.
        "transaction.max.timeout.ms": 900_000,
    }


def _one_machine() -> dict[str, object]:
    """Small, and quick to answer."""
    return {
        "group.initial.rebalance.delay.ms": 0,
        "num.network.threads": 2,
        "num.io.threads": 4,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        # After a kill the controller takes the new broker for a second one until the old one's
        # session has run out: a start waits as long. Shorter ones break on a busy machine.
        "broker.session.timeout.ms": 6_000,
        "broker.heartbeat.interval.ms": 1_000,
    }
