"""Lines that are cut, silent or slow, between Kafka and one side of its clients."""

from __future__ import annotations

import random
from dataclasses import replace

from ..fault import Done, Fault
from ..fault_error import FaultError
from ..world import World
from ..world_kind import SHORTENED
from .listeners import PRODUCERS, RESOLVER
from .rules import ANSWER, REQUEST, Selection

#: The requests that each side makes again and again, or after a lost connection.
REQUESTS = {
    RESOLVER: (
        "Produce",
        "Fetch",
        "ListOffsets",
        "OffsetFetch",
        "AddPartitionsToTxn",
        "AddOffsetsToTxn",
        "TxnOffsetCommit",
        "EndTxn",
        "ApiVersions",
        "Metadata",
    ),
    PRODUCERS: ("Produce", "Fetch", "Heartbeat", "OffsetCommit", "ApiVersions", "Metadata"),
}
#: A short `kafka.socket.timeout.ms`, and the longest one that the settings allow.
SOCKET_TIMEOUTS_MS = {
    "short": 1_000,
    "longest": SHORTENED["kafka_transaction_timeout_ms"] + 100,
}
_SILENT_SECONDS = 5
_LATENCY_SECONDS = 0.2
_SLOW_SECONDS = 10.0
_SHARE = 0.01
_SHARE_SECONDS = 15.0
#: Connections in a row that are cut at the same request.
_TIMES = (1, 2, 4)
#: Requests of a client that has lost a connection, or has just begun; others never send them.
_OF_NEW_CONNECTIONS = ("ApiVersions", "Metadata")


def cut(listener: str, api: str) -> Fault:
    """Return the fault of connections that are lost at a request, or before its answer."""

    def fault(world: World, chance: random.Random) -> Done:
        world.pause(chance.uniform(0, 1))
        side, times = chance.choice([REQUEST, ANSWER]), chance.choice(_TIMES)
        chosen = Selection(side=side, listener=listener, apis=(api,), times=times)
        with world.control.rule("cut", chosen) as rule:
            if api in _OF_NEW_CONNECTIONS:
                _lose_connections(world, listener)
            world.until(lambda: rule.story.counts, f"no {api} comes")
            world.mark()
            world.pause(chance.uniform(0, 2))
        where = "before it was handed on" if side == REQUEST else "in place of its answer"
        return Done(f"{rule.story} cut {where}", _events(rule.story.events))

    return fault


def _lose_connections(world: World, listener: str) -> None:
    """Let each connection of a side end at its next request, so that the client makes a new one."""
    with world.control.rule("cut", Selection(listener=listener, times=4)) as rule:
        world.until(lambda: rule.story.over, "no requests come")


def silence(listener: str, side: str, seconds: int) -> Fault:
    """Return the fault of a line that takes nothing on one way; later it all comes."""

    def fault(world: World, _chance: random.Random) -> Done:
        with world.control.rule(
            "silence", Selection(side=side, listener=listener), seconds
        ) as rule:
            world.pause(seconds)
            story = rule.story
        world.mark()
        if not story.counts:
            raise FaultError(f"nothing came that could be held for {seconds} s")
        return Done(f"{seconds} s without {side}s", f"held: {story}")

    return fault


def slow(listener: str) -> Fault:
    """Return the fault of a line on which each request takes some time longer."""

    def fault(world: World, _chance: random.Random) -> Done:
        world.mark()
        with world.control.rule("delay", Selection(listener=listener), _LATENCY_SECONDS) as rule:
            world.pause(_SLOW_SECONDS)
        return Done(f"{_LATENCY_SECONDS * 1_000:.0f} ms more", f"late: {rule.story}")

    return fault


def cut_some(listener: str) -> Fault:
    """Return the fault of a line on which connections are lost at one request of a hundred."""

    def fault(world: World, chance: random.Random) -> Done:
        chosen = Selection(listener=listener, share=_SHARE, seed=chance.randrange(2**31))
        world.mark()
        with world.control.rule("cut", chosen) as rule:
            world.pause(_SHARE_SECONDS)
            world.until(lambda: rule.story.counts, "no request was drawn")
        return Done(f"{_SHARE:.0%} of requests cut", f"cut: {rule.story}")

    return fault


def socket_timeout(milliseconds: int) -> Fault:
    """Return the fault of a silent line, where clients have another time-out for answers."""

    def fault(world: World, chance: random.Random) -> Done:
        settings = {**world.kept.settings, "kafka.socket.timeout.ms": milliseconds}
        world.stop("resolver")
        world.keep(replace(world.kept, settings=settings))
        world.start_following_refusals()
        side = chance.choice([REQUEST, ANSWER])
        done = silence(RESOLVER, side, _SILENT_SECONDS)(world, chance)
        return Done(f"{milliseconds} ms, {done.what}", done.proof)

    return fault


def _events(events: list[dict[str, str]]) -> str:
    return "; ".join(f"{event['what']} at {event['frame']}" for event in events)
