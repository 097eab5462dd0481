"""The cluster of a campaign without its nodes: what they are told, and the links between them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from resolver.broker.ports import HOST, free_port
from tests.faults.cluster import coordinator_partition
from tests.faults.links import Links, link_address
from tests.faults.node import Ports, properties_of

_SECONDS = 10.0


@pytest.mark.parametrize(
    ("key", "hashed"),
    [("", 0), ("hello", 99162322), ("tx.resolver", 167883824), ("ключ", 33309882)],
)
def test_a_coordinator_is_found_by_javas_hash(key: str, hashed: int) -> None:
    assert coordinator_partition(key, 1 << 31) == hashed
    assert coordinator_partition(key, 8) == hashed % 8


def test_all_nodes_are_told_of_the_same_voters_and_keep_three_replicas() -> None:
    ports = {node: Ports(node, 10 + node, 20 + node) for node in (1, 2, 3)}
    of = {node: properties_of(node, ports) for node in ports}
    assert {told["controller.quorum.voters"] for told in of.values()} == {
        "1@node1:21,2@node2:22,3@node3:23"
    }
    assert of[2]["advertised.listeners"] == (
        f"CLIENTS://{HOST}:2,BROKERS://node2:12,CONTROLLER://node2:22"
    )
    for topic in ("offsets.topic", "transaction.state.log"):
        assert of[1][f"{topic}.replication.factor"] == 3
    assert of[1]["min.insync.replicas"] == of[1]["transaction.state.log.min.isr"] == 2


@pytest.fixture
def links() -> Iterator[tuple[Links, int]]:
    """Links between three nodes, and the port of the third, which sends back what it gets."""
    ports = {node: free_port() for node in (1, 2, 3)}
    links = Links({node: (port,) for node, port in ports.items()})
    with socket.create_server((HOST, ports[3])) as third:
        threading.Thread(target=_echo, args=(third,), daemon=True).start()
        links.start()
        try:
            yield links, ports[3]
        finally:
            links.stop()


def test_a_node_that_is_cut_off_is_silent_and_hears_all_when_it_is_back(
    links: tuple[Links, int],
) -> None:
    of, port = links
    with _reach(1, 3, port) as before:
        assert _answer(before, b"a") == b"a"
        of.cut(3)
        with _reach(2, 3, port) as since:
            assert _answer(before, b"b", 0.5) is None
            assert _answer(since, b"c", 0.5) is None
            of.heal(3)
            assert (before.recv(1), since.recv(1)) == (b"b", b"c")


def test_others_still_reach_each_other(links: tuple[Links, int]) -> None:
    of, port = links
    of.cut(2)
    with _reach(1, 3, port) as left, _reach(2, 3, port) as cut_off:
        assert _answer(left, b"a") == b"a"
        assert _answer(cut_off, b"a", 0.5) is None


def test_an_end_is_passed_on(links: tuple[Links, int]) -> None:
    _, port = links
    with _reach(1, 3, port) as ended:
        assert _answer(ended, b".") == b""


def _reach(sender: int, receiver: int, port: int) -> socket.socket:
    return socket.create_connection((link_address(sender, receiver), port), _SECONDS)


def _answer(connection: socket.socket, sent: bytes, seconds: float = _SECONDS) -> bytes | None:
    """Return what comes back; None if nothing does in time."""
    connection.settimeout(seconds)
    connection.sendall(sent)
    try:
        return connection.recv(1)
    except TimeoutError:
        return None
    finally:
        connection.settimeout(_SECONDS)


def _echo(server: socket.socket) -> None:
    """Serve until the server is closed; a full stop ends a connection."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_echo_one, args=(connection,), daemon=True).start()


def _echo_one(connection: socket.socket) -> None:
    with connection:
        while (data := connection.recv(1)) and data != b".":
            connection.sendall(data)
