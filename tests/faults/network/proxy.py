"""The proxy's process: `python -m tests.faults.network.proxy NAME=OUTSIDE:INSIDE...`.

It says `ready: control=PORT`. The control takes a line of JSON and answers with one:

    {"add": {"act": "cut", "side": "answer", "apis": ["EndTxn"], "times": 1}}     {"rule": 1}
    {"look": 1}       {"counts": {"EndTxn": 1}, "events": [...], "over": true}
    {"remove": 1}     the same, and the rule holds no more
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from functools import partial
from itertools import count
from typing import Any

from resolver.broker.ports import HOST

from .late import late
from .link import Link, reset
from .rules import Cut, Delay, Rule, Rules, Selection, Silence

_numbers = count(1)
#: Those that carry: the event loop itself keeps none whose client has gone.
_links: set[Link] = set()


async def serve(fronts: list[str]) -> None:
    """Serve the fronts and the control until cancelled."""
    rules = Rules()
    for front in fronts:
        name, _, ports = front.partition("=")
        outside, inside = map(int, ports.split(":"))
        await asyncio.start_server(partial(_carry, rules, name, inside), HOST, outside)
    control = await asyncio.start_server(partial(_command, rules), HOST, 0)
    print(f"ready: control={control.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


async def _carry(
    rules: Rules,
    name: str,
    inside: int,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    try:
        broker = await asyncio.open_connection(HOST, inside)
    except OSError:  # the broker is down
        reset(writer)
        return
    link = Link(next(_numbers), name, (reader, writer), broker, rules)
    _links.add(link)
    try:
        await link.run()
    finally:
        _links.discard(link)


async def _command(
    rules: Rules, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with contextlib.closing(writer):
        while line := await reader.readline():
            answer = _obey(rules, json.loads(line))
            print(line.decode().strip(), "→", json.dumps(answer), flush=True)
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()


def _obey(rules: Rules, command: dict[str, Any]) -> dict[str, Any]:
    if "add" in command:
        return {"rule": rules.add(_rule(**command["add"]))}
    number: int = command.get("look") or command["remove"]
    seen = rules[number].seen
    if "remove" in command:
        rules.remove(number)
    return {"counts": dict(seen.counts), "events": seen.events, "over": seen.over}


def _rule(
    act: str, seconds: float = 0.0, moment: dict[str, Any] | None = None, **selection: Any
) -> Rule:
    selection["apis"] = tuple(selection.get("apis", ()))
    chosen = Selection(**selection)
    if act == "late":
        return late(moment or {}, chosen)
    if act == "cut":
        return Cut(chosen)
    return {"delay": Delay, "silence": Silence}[act](chosen, seconds)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(sys.argv[1:]))
