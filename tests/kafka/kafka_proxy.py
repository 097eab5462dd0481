"""A proxy between clients and a broker that knows Kafka's frames: it loses and delays requests."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

#: The numbers of Kafka's requests.
PRODUCE, FETCH, METADATA, FIND_COORDINATOR = 0, 1, 3, 10
INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS = 22, 24, 25
END_TXN, TXN_OFFSET_COMMIT, OFFSET_FETCH = 26, 28, 9
JOIN_GROUP = 11
_HOST = "127.0.0.1"
_ANSWER_SECONDS = 30.0


class Fate(Enum):
    """What becomes of a request, and of the client's connection."""

    FORWARD = "it goes on"
    LOSE_REQUEST = "the connection is lost before Kafka has it"
    LOSE_ANSWER = "Kafka has it, and the connection is lost before its answer"
    HOLD = "the connection is lost, and Kafka has the request when it is let go"
    HOLD_SILENTLY = "the same, but the connection is not lost: it takes all and gives nothing"


class Held(NamedTuple):
    """A request that is on its way, on a connection whose client is gone."""

    broker: socket.socket
    frame: bytes

    def let_go(self) -> bytes:
        """Let it reach Kafka, and return the answer behind its correlation id."""
        self.broker.settimeout(_ANSWER_SECONDS)
        self.broker.sendall(self.frame)
        answer = _read_frame(self.broker)
        self.broker.close()
        assert answer is not None
        return answer[8:]


class KafkaProxy:
    """Listens on `address` for the clients of one broker; `judge` says what becomes of a request.

    It is called with a request's number and bytes, in the connection's own thread. `answered` may
    change an answer's bytes, or keep the answer back (None) until the test sends it itself.
    """

    def __init__(
        self,
        broker: str,
        judge: Callable[[int, bytes], Fate],
        answered: Callable[[socket.socket, bytes], bytes | None] = lambda client, frame: frame,
        port: int = 0,
    ) -> None:
        self._broker = (_HOST, int(broker.rpartition(":")[2]))
        self._judge = judge
        self._answered = answered
        self.held: list[Held] = []
        self._listener = socket.create_server((_HOST, port))
        port = self._listener.getsockname()[1]
        self.address = f"{_HOST}:{port}"
        # A broker tells its address in a few answers, always as a host and, next to it, a port.
        self._own = _HOST.encode() + struct.pack(">i", self._broker[1])
        self._ours = _HOST.encode() + struct.pack(">i", port)
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End all connections."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._broker)
                self._open += [client, broker]
                for end in (client, broker):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                losing = threading.Event()
                ends = (client, broker, losing)
                for work in (self._requests, self._answers):
                    threading.Thread(target=work, args=ends, daemon=True).start()

    def _requests(
        self, client: socket.socket, broker: socket.socket, losing: threading.Event
    ) -> None:
        with suppress(OSError):
            while (frame := _read_frame(client)) is not None:
                fate = self._judge(int.from_bytes(frame[4:6], "big"), frame)
                if fate is Fate.LOSE_REQUEST:
                    break
                if fate is not Fate.FORWARD:
                    losing.set()
                if fate in (Fate.HOLD, Fate.HOLD_SILENTLY):
                    self.held.append(Held(broker, frame))
                else:
                    broker.sendall(frame)
                while fate is Fate.HOLD_SILENTLY and _read_frame(client) is not None:
                    pass
                if fate in (Fate.HOLD, Fate.HOLD_SILENTLY):
                    break
        _reset(client)
        if not losing.is_set():
            _reset(broker)

    def _answers(
        self, client: socket.socket, broker: socket.socket, losing: threading.Event
    ) -> None:
        with suppress(OSError):
            while not losing.is_set():
                # Of a held request the answer is read by who lets it go.
                if broker.recv(1, socket.MSG_PEEK) == b"" or losing.is_set():
                    break
                if (frame := _read_frame(broker)) is None:
                    break
                answer = self._answered(client, frame.replace(self._own, self._ours))
                if answer is not None:
                    client.sendall(answer)
        _reset(client)


def _read_frame(end: socket.socket) -> bytes | None:
    """Return a frame with its length; None at the end."""
    head = _read(end, 4)
    if head is None:
        return None
    body = _read(end, int.from_bytes(head, "big"))
    return None if body is None else head + body


def _read(end: socket.socket, count: int) -> bytes | None:
    read = bytearray()
    while len(read) < count:
        if not (some := end.recv(count - len(read))):
            return None
        read += some
    return bytes(read)


def _reset(end: socket.socket) -> None:
    """End a connection, also one from which another thread reads."""
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
        end.close()
