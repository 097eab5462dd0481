"""One connection through the proxy: a client's side, a broker's side, and what is between them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time

from .frames import Request, correlation_of, read_frame
from .rules import ANSWER, REQUEST, Fate, Frame, Rules

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_ENDS = (asyncio.IncompleteReadError, ConnectionError, OSError)
#: A close with this option is a reset: what is unsent is dropped, and the other side knows at once.
_RESET = struct.pack("ii", 1, 0)


class Link:
    """Carries frames both ways, each as the rules say, in the order of its side."""

    def __init__(
        self, number: int, listener: str, client: Streams, broker: Streams, rules: Rules
    ) -> None:
        self.number = number
        self.listener = listener
        self._client_reader, self._client = client
        self._broker_reader, self._broker = broker
        self._rules = rules
        self._unanswered: dict[int, Request] = {}
        self._is_held = False

    async def run(self) -> None:
        """Carry until one side ends: of a held connection the broker's, of others either."""
        inboxes = [Inbox(self._client_reader), Inbox(self._broker_reader)]
        tasks = [
            asyncio.create_task(self._requests(inboxes[0])),
            asyncio.create_task(self._answers(inboxes[1])),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if self._is_held:
                await tasks[1]
        finally:
            tasks += [inbox.filling for inbox in inboxes]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            reset(self._client)
            self._broker.close()

    def send_late(self, frame: Frame) -> None:
        """Hand on a request that was held; its client has gone."""
        self._unanswered[frame.request.correlation] = frame.request
        self._broker.write(frame.data)

    def let_go(self) -> None:
        """End a connection that was held."""
        self._broker.close()

    async def _requests(self, inbox: Inbox) -> None:
        while frame := await inbox.next():
            received_at, data = frame
            request = Request.of(data)
            fate = await self._rules.apply(Frame(REQUEST, self, request, data, received_at))
            if fate is Fate.HOLD:
                self._is_held = True
                reset(self._client)
            if fate is not Fate.PASS:
                return
            self._unanswered[request.correlation] = request
            self._broker.write(data)
            with contextlib.suppress(*_ENDS):
                await self._broker.drain()

    async def _answers(self, inbox: Inbox) -> None:
        while frame := await inbox.next():
            received_at, data = frame
            request = self._unanswered.pop(correlation_of(data))
            fate = await self._rules.apply(Frame(ANSWER, self, request, data, received_at))
            if fate is not Fate.PASS:
                return
            if not self._client.is_closing():
                self._client.write(data)
                with contextlib.suppress(*_ENDS):
                    await self._client.drain()


class Inbox:
    """Frames of one side with the time of each, all that came before the end too.

    A task of its own reads them, so that a delay counts from the arrival of its frame.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._queue: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
        self.filling = asyncio.create_task(self._fill())

    async def next(self) -> tuple[float, bytes] | None:
        """Return the next one, None at the end."""
        return await self._queue.get()

    async def _fill(self) -> None:
        with contextlib.suppress(*_ENDS):
            while True:
                data = await read_frame(self._reader)
                self._queue.put_nowait((time.monotonic(), data))
        self._queue.put_nowait(None)


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection at once, as by a reset."""
    with contextlib.suppress(OSError):
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
