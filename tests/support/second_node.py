"""A second node beside a broker: what only it has is without a leader while it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from resolver.broker import Broker
from resolver.broker.guard import Guarded
from resolver.broker.jars import kafka_classpath
from resolver.broker.java import find_java
from resolver.broker.ports import HOST, free_port
from resolver.kafka.clients import admin_client
from resolver.kafka.topics import ensure_topics
from resolver.resolve.delivery import Delivery
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS, wait_until

FIRST, NODE = 1, 2
_STOP_SECONDS = 60.0


class SecondNode:
    """It joins the cluster of `first`, as a broker only; its data are below `home`."""

    def __init__(self, first: Broker, home: Path) -> None:
        self._admin = AdminClient({"bootstrap.servers": first.bootstrap})
        self._home = home
        home.mkdir()
        self._java = [
            str(find_java()),
            "-Xmx256m",
            "-cp",
            os.pathsep.join(map(str, kafka_classpath())),
        ]
        self._node: Guarded | None = None
        kept = _properties(first.home / "server.properties")
        listener = f"CLIENTS://{HOST}:{free_port()}"
        own = {
            "process.roles": "broker",
            "node.id": str(NODE),
            "listeners": listener,
            "advertised.listeners": listener,
        }
        lines = [f"{name}={value}" for name, value in {**kept, **own}.items()]
        (home / "server.properties").write_text("\n".join(lines))
        cluster = _properties(first.home / "data" / "meta.properties")["cluster.id"]
        asked = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}"]
        subprocess.run(
            [*self._java, *asked, "--config", "server.properties"], cwd=home, check=True,
            capture_output=True,
        )  # fmt: skip

    def start(self) -> None:
        """Start it unless it runs, and wait until clients know it."""
        if self._node is not None:
            return
        command = [*self._java, "kafka.Kafka", "server.properties"]
        self._node = Guarded(command, self._home, self._home / "node.out", keep=())
        wait_until(lambda: NODE in self._admin.list_topics(timeout=PATIENCE_SECONDS).brokers)

    def stop(self) -> None:
        """Stop it in order: Kafka knows at once that it is gone."""
        if self._node is not None:
            self._node.stop(_STOP_SECONDS)
            self._node = None

    def kill(self) -> None:
        """Kill it: Kafka takes it for alive until its session is over."""
        os.kill(self.pid, signal.SIGKILL)
        self.stop()

    def pause(self) -> None:
        """Let it fall silent: Kafka takes it for alive until its session is over."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """End the silence, if it still runs."""
        if self._node is not None:
            os.kill(self.pid, signal.SIGCONT)

    @property
    def pid(self) -> int:
        """The process id of its Java."""
        assert self._node is not None
        return self._node.pid

    def make_topic(
        self, topic: str, nodes: Sequence[int] = (NODE,), config: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic with a partition on each of these nodes, and return when it is led."""
        replicas = [[node] for node in nodes]
        new = NewTopic(topic, len(nodes), replica_assignment=replicas, config=dict(config or {}))
        self._admin.create_topics([new])[topic].result(PATIENCE_SECONDS)
        wait_until(lambda: self._is_led(topic))

    def _is_led(self, topic: str) -> bool:
        description = self._admin.list_topics(timeout=PATIENCE_SECONDS).topics.get(topic)
        return description is not None and all(
            partition.leader > 0 for partition in description.partitions.values()
        )


def have_kafkas_topics_made(first: Broker) -> None:
    """Have Kafka make its own topics while the first node is alone: else the second has some."""
    settings = Settings(bootstrap_servers=first.bootstrap, topic_prefix="alone.", queues=1)
    ensure_topics(admin_client(settings), settings)
    delivery = Delivery(settings, "checkpoint")
    delivery.start(is_new=True)
    delivery.close()


def _properties(file: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in file.read_text().splitlines())
    return {name: value for name, is_one, value in lines if is_one and not name.startswith("#")}
