"""A cluster of three Kafka nodes on this machine, each of which may be killed, halted, cut off."""

from __future__ import annotations

import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from resolver.broker.ports import HOST, free_port
from resolver.errors import BrokerError

from .links import Links, link_address
from .node import COORDINATORS, Node, Ports

NODES = (1, 2, 3)
_START_SECONDS = 180.0
_WHOLE_SECONDS = 180.0
_ANSWER_SECONDS = 5.0
_CREATE_SECONDS = 30.0
#: No other node has the topic. Without an fsync of each record, a loss of power takes what Kafka
#: has acknowledged: `topic without a leader` and `power loss of op leader` lost 1,033 messages so.
_ONE = {"min.insync.replicas": "1", "flush.messages": "1"}
_LOOK_SECONDS = 0.2
#: Seconds for a node to end if all are told to stop: without the others it can't end in order.
_END_SECONDS = 3.0


class _Copies(NamedTuple):
    """The nodes that lead a partition, have it, and have all of it."""

    leader: int
    replicas: set[int]
    in_sync: set[int]


class Cluster:
    """Three nodes, broker and controller each, all data below `home`, as long as the `with` lasts.

    Topics have three replicas, two of which must be in sync. With `links` a node can be cut off
    from the others; `keep` and `preload` are for each `Node`, `preload` by its home.
    """

    def __init__(
        self,
        home: Path,
        *,
        links: bool = False,
        keep: tuple[int, ...] = (),
        preload: Callable[[Path], Mapping[str, str]] = lambda _home: {},
    ) -> None:
        ports = _free_ports()
        inner = {node: (of_node.brokers, of_node.controller) for node, of_node in ports.items()}
        self.links = Links(inner) if links else None
        self.nodes: dict[int, Node] = {}
        for number in NODES:
            folder = home / f"node{number}"
            seen = {receiver: _address(number, receiver, links) for receiver in NODES}
            self.nodes[number] = Node(number, folder, ports, seen, keep, preload(folder))
        self.bootstrap = ",".join(node.address for node in self.nodes.values())

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all nodes and return when all of them answer."""
        try:
            if self.links is not None:
                self.links.start()
            self._format()
            for node in self.nodes.values():
                node.launch()
            self._until(self._all_answer, "the cluster does not come up", _START_SECONDS)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all nodes; nothing is left running."""
        for node in self.nodes.values():
            node.stop(_END_SECONDS)
        if self.links is not None:
            self.links.stop()

    def check(self) -> None:
        """Raise `BrokerError` if a node has ended by itself."""
        for node in self.nodes.values():
            node.check()

    def knows(self, topics: Iterable[str]) -> bool:
        """Whether each node knows these topics: they hear of a new one at different times."""
        asked = [self._asking(node) for node in self.nodes.values()]
        known = [admin.list_topics(timeout=_ANSWER_SECONDS).topics for admin in asked]
        return all(set(topics) <= of_node.keys() for of_node in known)

    def make_topic(self, topic: str, *on: int, partitions: int = 1) -> None:
        """Make a topic that only these nodes have: while all of them are away it has no leader.

        The first node leads it.
        """
        new = NewTopic(topic, partitions, replica_assignment=[[*on]] * partitions, config=_ONE)
        admin = self._admin()  # keep it while its answer is awaited
        admin.create_topics([new])[topic].result(_CREATE_SECONDS)

    def leader(self, topic: str, partition: int, besides: int = 0) -> int:
        """Return the node that leads a partition; -1: none does, or nobody says.

        The node `besides` is not asked first: what it knows may be old.
        """
        try:
            return int(self._partitions(topic, besides)[partition].leader)
        except (BrokerError, KafkaException):
            return -1

    def await_whole(self, seconds: float = _WHOLE_SECONDS) -> None:
        """Wait until every replica of every partition is in sync."""
        self._until(self.is_whole, "not all replicas come in sync", seconds)

    def is_whole(self) -> bool:
        """Whether every replica of every partition is in sync, and all nodes say the same.

        A node that is just starting, or was cut off, may report an earlier state.
        """
        if not all(node.takes_clients for node in self.nodes.values()):
            return False
        try:
            views = [self._view(node) for node in self.nodes.values()]
        except KafkaException:
            return False
        return all(view == views[0] for view in views) and all(
            leader > 0 and in_sync == replicas for leader, replicas, in_sync in views[0].values()
        )

    def _view(self, node: Node) -> dict[tuple[str, int], _Copies]:
        """Return who leads, has and is in sync of each partition, as one node has it."""
        topics = self._asking(node).list_topics(timeout=_ANSWER_SECONDS).topics
        return {
            (name, number): _Copies(partition.leader, {*partition.replicas}, {*partition.isrs})
            for name, topic in topics.items()
            for number, partition in topic.partitions.items()
        }

    def _partitions(self, topic: str, besides: int) -> dict[int, Any]:
        topics = self._admin(besides).list_topics(timeout=_ANSWER_SECONDS).topics
        if topic not in topics:
            raise BrokerError(f"there is no topic {topic} yet")
        partitions: dict[int, Any] = topics[topic].partitions
        return partitions

    def _admin(self, besides: int = 0) -> AdminClient:
        return self._asking(*(node for node in self.nodes.values() if node.number != besides))

    @staticmethod
    def _asking(*nodes: Node) -> AdminClient:
        """Return a new client each time: an old one may remember the time before a node's end.

        It may ask other nodes too, once it hears of them.
        """
        asked = ",".join(node.address for node in nodes)
        return AdminClient({"bootstrap.servers": asked, "log_level": 0})

    def _format(self) -> None:
        """Format the nodes that never ran, all at once: it is mostly a JVM's start."""
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        new = [node for node in self.nodes.values() if not node.is_formatted]
        running = [node.format(cluster_id) for node in new]
        for formatting in running:
            output, _ = formatting.communicate(timeout=_START_SECONDS)
            if formatting.returncode:
                raise BrokerError(f"a node of the cluster can't be formatted: {output.strip()}")

    def _all_answer(self) -> bool:
        """Whether each node takes clients and knows the others, after it has mended its files."""
        try:
            known = [self._brokers(node) for node in self.nodes.values()]
        except KafkaException:
            return False
        return all(count == len(NODES) for count in known)

    def _brokers(self, node: Node) -> int:
        return len(self._asking(node).list_topics(timeout=_ANSWER_SECONDS).brokers)

    def _until(self, done: Callable[[], bool], otherwise: str, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not done():
            self.check()
            if time.monotonic() > until:
                raise BrokerError(f"{otherwise} within {seconds:.0f} s")
            time.sleep(_LOOK_SECONDS)


def transactions_of(transactional_id: str) -> tuple[str, int]:
    """Return the partition whose leader coordinates the transactions of an id."""
    return "__transaction_state", coordinator_partition(transactional_id, COORDINATORS)


def offsets_of(group: str) -> tuple[str, int]:
    """Return the partition whose leader keeps the offsets of a consumer group."""
    return "__consumer_offsets", coordinator_partition(group, COORDINATORS)


def coordinator_partition(key: str, partitions: int) -> int:
    """Return the partition of a coordinator's key, by Java's hash of strings."""
    encoded, hashed = key.encode("utf-16-be"), 0
    for index in range(0, len(encoded), 2):
        hashed = 31 * hashed + int.from_bytes(encoded[index : index + 2], "big") & 0xFFFFFFFF
    return (hashed & 0x7FFFFFFF) % partitions


def _address(number: int, receiver: int, links: bool) -> str:
    return link_address(number, receiver) if links and number != receiver else HOST


def _free_ports() -> dict[int, Ports]:
    free: set[int] = set()
    while len(free) < len(NODES) * len(Ports._fields):
        free.add(free_port())
    numbers = iter(free)
    return {node: Ports(next(numbers), next(numbers), next(numbers)) for node in NODES}
