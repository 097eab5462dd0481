"""How much is measured: in full, and in the short form."""

from __future__ import annotations

from dataclasses import dataclass

from .arriving import Window
from .plain_way import NARROW_SECONDS, WIDE_SECONDS


@dataclass(frozen=True)
class Scale:
    """Sizes and times of all measurements.

    | field | meaning |
    | --- | --- |
    | rounds | how often all are repeated, in turn |
    | warm_up | transactions resolved, and joined, before the first round: the JVM is warm |
    | transactions | of a backlog |
    | window | of a load that arrives: what warms up, what counts (seconds) |
    | rocketmq | the same for RocketMQ, all of which is new each time |
    | bodies, rates, forms | that loads have |
    | waits | of the plain join: its time condition and watermark (seconds) |
    """

    rounds: int
    warm_up: int
    transactions: int
    window: Window
    rocketmq: Window
    bodies: tuple[int, ...]
    rates: tuple[int, ...]
    forms: tuple[str, ...]
    waits: tuple[int, ...]


FULL = Scale(
    rounds=3,
    warm_up=300_000,
    transactions=500_000,
    window=Window(70, 30),
    rocketmq=Window(70, 30),
    bodies=(512, 2_048),
    rates=(200, 2_000, 10_000),
    forms=("threads", "lingering", "bulk"),
    waits=(WIDE_SECONDS, NARROW_SECONDS),
)
QUICK = Scale(
    rounds=1,
    warm_up=100_000,
    transactions=100_000,
    window=Window(5, 10),
    rocketmq=Window(30, 10),
    bodies=(512,),
    rates=(200,),
    forms=("bulk",),
    waits=(WIDE_SECONDS,),
)
#: What the short form measures.
QUICKLY = ("rocketmq", "sustained", "latency", "backlog", "plain")
