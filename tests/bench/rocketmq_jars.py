"""The jars of RocketMQ, the peer: resolved once, cached beside our own."""

from __future__ import annotations

from pathlib import Path

from resolver.broker.jars import cached_jars

#: The peer that `scripts/bench` measures beside us, with its own benchmark programs.
ROCKETMQ = (
    "org.apache.rocketmq:rocketmq-broker:5.5.0",
    "org.apache.rocketmq:rocketmq-namesrv:5.5.0",
    "org.apache.rocketmq:rocketmq-example:5.5.0",
    # Something below them asks for exactly these, in a notation that jgo does not understand.
    "io.grpc:grpc-api:1.53.0",
    "io.grpc:grpc-core:1.53.0",
)


def rocketmq_classpath() -> list[Path]:
    """Return the jars of RocketMQ: its name server, broker and benchmark programs."""
    return cached_jars("RocketMQ", [ROCKETMQ], present=())
