"""The network between the nodes of a cluster: a node can be cut off, while clients still reach it.

A node reaches another by an address that is only for the two, such as 127.0.1.3 for what node 1
sends to node 3. What comes there is passed on to 127.0.0.1, by the same port. Of one that is cut
off nothing is passed on, either way, and no connection ends: it is silent, as a broken cable is.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Mapping
from itertools import permutations
from typing import Any

from resolver.broker.ports import HOST
from resolver.errors import BrokerError

#: Seconds until the links' thread has done what it was told; and bytes that it passes on at once.
_SECONDS = 10.0
_BYTES = 65_536


def link_address(sender: int, receiver: int) -> str:
    """Return where one node finds another: all of 127.0.0.0/8 is this machine, on Linux."""
    return f"127.0.{sender}.{receiver}"


class Links:
    """The links between all nodes, to the ports that each has for the others."""

    def __init__(self, ports: Mapping[int, tuple[int, ...]]) -> None:
        self._ports = ports
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._is_reached = {node: asyncio.Event() for node in ports}
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Open all links; raises `BrokerError` where an address can't be had."""
        self._thread.start()
        try:
            self._do(self._open())
        except OSError as error:
            raise BrokerError(f"the links between nodes can't be opened: {error}") from error

    def stop(self) -> None:
        """Close all of them."""
        if self._thread.is_alive():
            self._do(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def cut(self, node: int) -> None:
        """Cut a node off from the others."""
        self._loop.call_soon_threadsafe(self._is_reached[node].clear)

    def heal(self, node: int) -> None:
        """Let it reach the others again; what was sent meanwhile arrives now."""
        self._loop.call_soon_threadsafe(self._is_reached[node].set)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_SECONDS)

    async def _open(self) -> None:
        for event in self._is_reached.values():
            event.set()
        for sender, receiver in permutations(self._ports, 2):
            for port in self._ports[receiver]:
                link = _Link(port, (self._is_reached[sender], self._is_reached[receiver]))
                address = link_address(sender, receiver)
                self._servers.append(await asyncio.start_server(self._passing(link), address, port))

    def _passing(self, link: _Link) -> Any:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            if task is not None:
                self._connections.add(task)
                task.add_done_callback(self._connections.discard)
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await link.carry(reader, writer)

        return connected

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


class _Link:
    """Carries connections to a port, while both of its ends are reached."""

    def __init__(self, port: int, is_reached: tuple[asyncio.Event, asyncio.Event]) -> None:
        self._port = port
        self._is_reached = is_reached

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until one of the two ends it."""
        with contextlib.closing(writer):
            await self._await_reached()
            there, back = await asyncio.open_connection(HOST, self._port)
            with contextlib.closing(back):
                ways = [
                    asyncio.ensure_future(self._pass(*way))
                    for way in ((reader, back), (there, writer))
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_BYTES):
            await self._await_reached()
            writer.write(data)
            await writer.drain()
        await self._await_reached()  # that it has ended is not known either

    async def _await_reached(self) -> None:
        for event in self._is_reached:
            await event.wait()
