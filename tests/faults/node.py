"""One node of a cluster: a Kafka broker and controller that is killed, halted and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from resolver.broker.guard import Guarded
from resolver.broker.jars import kafka_classpath
from resolver.broker.java import find_java
from resolver.broker.ports import HOST
from resolver.broker.server import LOGGING
from resolver.errors import BrokerError

#: Small, as three of them share a machine with everything else, and quick rather than fast.
_JVM = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
    "-Dbroker.log=broker.log",
    "-Djdk.net.hosts.file=hosts",
)
_LISTENERS = ("CLIENTS", "BROKERS", "CONTROLLER")
_FILE = "server.properties"
_HOSTS = "hosts"
DATA = "data"
#: Partitions of the topics that coordinators keep their state in. Kafka's default is 50, and each
#: node opens some files for each.
COORDINATORS = 8
_STOP_SECONDS = 60.0
_LOOK_SECONDS = 0.02


class Ports(NamedTuple):
    """Where clients, other brokers and other controllers reach a node."""

    clients: int
    brokers: int
    controller: int


class Node:
    """A node below `home`; `keep` are descriptors that it holds, `preload` is environment.

    It calls the node N of the cluster `nodeN`, and `addresses` says where each of these is for it.
    """

    def __init__(
        self,
        number: int,
        home: Path,
        ports: Mapping[int, Ports],
        addresses: Mapping[int, str],
        keep: tuple[int, ...] = (),
        preload: Mapping[str, str] | None = None,
    ) -> None:
        self.number = number
        self.home = home
        self.is_doomed = False
        self.address = f"{HOST}:{ports[number].clients}"
        self._keep = keep
        self._preload = [f"{name}={value}" for name, value in (preload or {}).items()]
        self._process: Guarded | None = None
        home.mkdir(parents=True, exist_ok=True)
        hosts = [f"{address} {host_of(node)}" for node, address in addresses.items()]
        _write(home / _HOSTS, [*hosts, f"{HOST} localhost"])
        properties = properties_of(number, ports)
        _write(home / _FILE, [f"{name}={value}" for name, value in properties.items()])

    @property
    def is_formatted(self) -> bool:
        return (self.home / DATA / "meta.properties").exists()

    def format(self, cluster_id: str) -> subprocess.Popen[str]:
        """Begin to format its folder; it has to end with 0."""
        asked = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}"]
        return subprocess.Popen(
            [*self._java(), *asked, "--config", _FILE],
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def launch(self) -> None:
        """Start it; it answers after some seconds."""
        # `env` becomes Java: what is preloaded is not for the shell that guards it.
        command = ["env", *self._preload, *self._java(), "kafka.Kafka", _FILE]
        self.is_doomed = False
        self._process = Guarded(command, self.home, self.home / "broker.out", self._keep)

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_up(self) -> bool:
        """Whether its process was started and has not ended."""
        return self._process is not None and self._process.exit_status() is None

    @property
    def takes_clients(self) -> bool:
        """Whether it lets clients connect, which is when the cluster knows that it is there."""
        with contextlib.suppress(OSError):
            host, port = self.address.split(":")
            socket.create_connection((host, int(port)), timeout=1).close()
            return True
        return False

    def check(self) -> None:
        """Raise `BrokerError` if it has ended by itself."""
        if self._process is not None and not self.is_up and not self.is_doomed:
            status, log = self._process.exit_status(), self.home / "broker.log"
            raise BrokerError(f"node {self.number} died (exit status {status}), see {log}")

    def doom(self) -> int:
        """Return its process id to who is about to end it: that is expected from now on."""
        self.is_doomed = True
        return self.pid

    def end(self, number: int) -> None:
        """Kill it (SIGKILL), or tell it to stop in order (SIGTERM); `see_ended` sees that."""
        os.kill(self.doom(), number)

    def see_ended(self, by: int) -> str:
        """Return what shows that it ended by a signal; raises `BrokerError` if otherwise."""
        process, until = self._running(), time.monotonic() + _STOP_SECONDS
        while (status := process.exit_status()) is None and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        self._process = None
        process.stop(0)
        # As a shell says it of its child.
        if status != 128 + by:
            raise BrokerError(f"node {self.number} ended with {status}, not by signal {by}")
        return f"exit code {status}"

    def kill(self) -> str:
        """Kill it by kill -9; return what shows that."""
        self.end(signal.SIGKILL)
        return self.see_ended(signal.SIGKILL)

    def halt(self) -> None:
        """Let it stand still, its connections open."""
        os.kill(self.pid, signal.SIGSTOP)

    @property
    def is_halted(self) -> bool:
        return bool(psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)

    def go_on(self) -> None:
        """Undo `halt`."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Stop it in order, so that Kafka knows at once; kill it after `seconds`."""
        if self._process is not None:
            process, self._process = self._process, None
            process.stop(seconds)

    def _running(self) -> Guarded:
        if self._process is None:
            raise BrokerError(f"node {self.number} of the cluster in {self.home} is not running")
        return self._process

    @staticmethod
    def _java() -> list[str]:
        return [str(find_java()), *_JVM, "-cp", os.pathsep.join(map(str, kafka_classpath()))]


def host_of(node: int) -> str:
    """Return what nodes call a node."""
    return f"node{node}"


def properties_of(number: int, ports: Mapping[int, Ports]) -> dict[str, object]:
    """Return the properties of a node: three replicas of everything, two of them in sync.

    What decides how soon Kafka notices anything is as Kafka has it by default.
    """
    own = ports[number]
    voters = [f"{node}@{host_of(node)}:{of_node.controller}" for node, of_node in ports.items()]
    return {
        "process.roles": "broker,controller",
        "node.id": number,
        "controller.quorum.voters": ",".join(voters),
        "listeners": _listeners(own, HOST, HOST),
        "advertised.listeners": _listeners(own, HOST, host_of(number)),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in _LISTENERS),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "BROKERS",
        "log.dirs": DATA,
        "auto.create.topics.enable": "false",
        **_replicated(len(ports)),
        # The most that a client may ask for; the resolver's batches ask for five minutes.
        "transaction.max.timeout.ms": 900_000,
        "num.network.threads": 2,
        "num.io.threads": 4,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
    }


def _replicated(count: int) -> dict[str, object]:
    topics = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    return {
        "default.replication.factor": count,
        "min.insync.replicas": count - 1,
        **{f"{topic}.replication.factor": count for topic in topics},
        **{f"{topic}.min.isr": count - 1 for topic in topics[1:]},
        **{f"{topic}.num.partitions": COORDINATORS for topic in topics},
    }


def _listeners(ports: Ports, clients: str, others: str) -> str:
    addresses = zip(_LISTENERS, (clients, others, others), ports, strict=True)
    return ",".join(f"{name}://{host}:{port}" for name, host, port in addresses)


def _write(file: Path, lines: Sequence[str]) -> None:
    file.write_text("\n".join([*lines, ""]))
