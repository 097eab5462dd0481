"""A second node beside a broker: what only it has is without a leader while it is stopped."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from leftovers import wait_until

from resolver.broker import Broker
from resolver.broker.guard import Guarded
from resolver.broker.jars import kafka_classpath
from resolver.broker.java import find_java
from resolver.broker.ports import HOST, free_port

NODE = 2
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
        """Start it, and wait until clients know it."""
        command = [*self._java, "kafka.Kafka", "server.properties"]
        self._node = Guarded(command, self._home, self._home / "node.out", keep=())
        wait_until(lambda: NODE in self._admin.list_topics(timeout=10).brokers)

    def stop(self) -> None:
        """Stop it in order: Kafka knows at once that it is gone."""
        if self._node is not None:
            self._node.stop(_STOP_SECONDS)
            self._node = None

    def make_topic(self, topic: str) -> None:
        """Make a topic of one partition, which this node alone has."""
        self._admin.create_topics([NewTopic(topic, 1, replica_assignment=[[NODE]])])[topic].result(
            30
        )


def _properties(file: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in file.read_text().splitlines())
    return {name: value for name, is_one, value in lines if is_one and not name.startswith("#")}
