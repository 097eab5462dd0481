"""All measurements: their names, what they are about, and their cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from .arriving import at_rate, sustained
from .audit import audit_cost
from .backlog import backlog
from .checks import held_checks, idle_checks
from .ends import ends_joined, ends_resolved
from .growth import with_bodies, with_pending, with_queues, with_settled
from .idle import asleep_cpu, idle_cpu
from .leaderless import leaderless
from .ledger import ledger_cost
from .limit import librdkafka, spark_copy
from .plain_way import plain_at_rate, plain_backlog
from .producing import producer_alone
from .results import Found
from .rocketmq import rocketmq
from .scale import Scale
from .stage import Stage
from .start import starts

_OURS, _HISTORIES = "txresolver", 4_000
_STARTS = 10


def _rocketmq(stage: Stage, scale: Scale) -> Iterator[Found]:
    warm_up, seconds = int(scale.rocketmq.warm_up), int(scale.rocketmq.seconds)
    for body in scale.bodies:
        # New each time: long after its last transaction a broker of it still takes a core.
        with rocketmq(stage.folder()) as peer:
            figures = peer.transactions(body, warm_up, seconds)
        yield f"{body:,} bytes", figures


def _sustained(stage: Stage, scale: Scale) -> Iterator[Found]:
    for body in scale.bodies:
        best = 0.0
        for form in scale.forms:
            found = sustained(stage, scale.window, form, body)
            best = max(best, found["per_second"])
            yield f"{body:,} bytes, {form}", found
        yield f"{body:,} bytes, at 80 % of it", at_rate(stage, scale.window, int(0.8 * best), body)


def _latency(stage: Stage, scale: Scale) -> Iterator[Found]:
    for rate in scale.rates:
        yield f"{rate:,}/s", at_rate(stage, scale.window, rate)


def _fast(stage: Stage, scale: Scale) -> Iterator[Found]:
    for rate in scale.rates:
        yield f"{rate:,}/s", at_rate(stage, scale.window, rate, fast=True)
    body = scale.bodies[0]
    for form in scale.forms:
        yield f"{body:,} bytes, {form}", sustained(stage, scale.window, form, body, fast=True)


def _client(stage: Stage, scale: Scale) -> Iterator[Found]:
    for form in ("thread", "threads", "asyncio", "bulk"):
        yield f"{_OURS}, {form}", producer_alone(stage, form, scale.window.seconds)
    warm_up, seconds = int(scale.rocketmq.warm_up), int(scale.rocketmq.seconds)
    for form, threads in (("thread", 1), ("threads", 32)):
        with rocketmq(stage.folder()) as peer:
            figures = peer.producer_alone(threads, warm_up, seconds)
        yield f"RocketMQ, {form}", figures


def _backlog(stage: Stage, scale: Scale) -> Iterator[Found]:
    yield _OURS, backlog(stage, scale.transactions)


def _plain(stage: Stage, scale: Scale) -> Iterator[Found]:
    for wait in scale.waits:
        yield f"{wait} s, backlog", plain_backlog(stage, scale.transactions, wait)
        yield f"{wait} s, 200/s", plain_at_rate(stage, scale.window, 200, wait)


def _ends(stage: Stage, scale: Scale) -> Iterator[Found]:
    yield _OURS, ends_resolved(stage, _HISTORIES)
    for wait in scale.waits:
        yield f"plain join, {wait} s", ends_joined(stage, _HISTORIES, wait)


def _limit(stage: Stage, scale: Scale) -> Iterator[Found]:
    yield "Spark's copy", spark_copy(stage, scale.transactions)
    yield "librdkafka", librdkafka(stage, scale.transactions)


def _checks(stage: Stage, scale: Scale) -> Iterator[Found]:
    yield "on idle topics", idle_checks(stage, 100)


def _leaderless(stage: Stage, scale: Scale) -> Iterator[Found]:
    yield "200/s to all others", leaderless(stage, scale.window.warm_up)


def _idle(stage: Stage, scale: Scale) -> Iterator[Found]:
    yield "txresolver up", idle_cpu(stage.folder(), scale.window.seconds)


def _asleep(stage: Stage, scale: Scale) -> Iterator[Found]:
    yield "39 pending", asleep_cpu(stage.folder(), 39)


def _start(stage: Stage, scale: Scale) -> Iterator[Found]:
    return starts(stage.folder(), _STARTS)


def _settled(stage: Stage, scale: Scale) -> Iterator[Found]:
    sizes = (100_000, 1_000_000, 10_000_000)
    return with_settled(stage, sizes, scale.transactions // 2, scale.window.seconds)


def _pending(stage: Stage, scale: Scale) -> Iterator[Found]:
    sizes = (100, 10_000, 1_000_000)
    return with_pending(stage, sizes, scale.transactions // 2, scale.window.seconds)


def _held(stage: Stage, scale: Scale) -> Iterator[Found]:
    yield "1,000,000 pending", held_checks(stage, 1_000_000, lead=180, seconds=60)


def _queues(stage: Stage, scale: Scale) -> Iterator[Found]:
    return with_queues(stage, (1, 4, 16), scale.transactions // 2, scale.window.seconds)


def _bodies(stage: Stage, scale: Scale) -> Iterator[Found]:
    sizes = (128, 512, 2_048, 16_384)
    return with_bodies(stage, sizes, scale.transactions // 2, scale.window.seconds)


def _audit(stage: Stage, scale: Scale) -> Iterator[Found]:
    for transactions in (1_000_000, 10_000_000):
        yield f"{transactions:,}", audit_cost(stage, transactions)


def _ledger(stage: Stage, scale: Scale) -> Iterator[Found]:
    return ledger_cost(stage)


class Measurement(NamedTuple):
    """What `scripts/bench NAME` runs; `group` names the command that runs several."""

    group: str
    about: str
    cases: Callable[[Stage, Scale], Iterator[Found]]


MEASUREMENTS = {
    "rocketmq": Measurement("compare", "RocketMQ by its own transaction benchmark", _rocketmq),
    "sustained": Measurement("compare", "end to end, as many as go through", _sustained),
    "latency": Measurement("compare", "end to end, from commit to visible, at rates", _latency),
    "fast": Measurement("compare", "end to end by fast commits, at rates and sustained", _fast),
    "client": Measurement("compare", "producers alone: ours in its forms, RocketMQ's", _client),
    "backlog": Measurement("compare", "all stored before the resolver starts", _backlog),
    "plain": Measurement("compare", "a stream-stream join and Spark's sink instead", _plain),
    "ends": Measurement("compare", "late, repeated, conflicting ends: what is delivered", _ends),
    "limit": Measurement("compare", "Spark's copy of the halves; librdkafka alone", _limit),
    "checks": Measurement("compare", "how late checks are on idle topics", _checks),
    "leaderless": Measurement("growth", "a real topic has no leader for 90 s", _leaderless),
    "idle": Measurement("compare", "CPU of `txresolver up` while nothing happens", _idle),
    "asleep": Measurement("growth", "CPU of `up`, 39 pending that nobody answers for", _asleep),
    "start": Measurement("growth", "starts of `txresolver up`: new, stopped, killed", _start),
    "queues": Measurement("growth", "with 1, 4, 16 queues", _queues),
    "bodies": Measurement("growth", "with bodies of 128 to 16,384 bytes", _bodies),
    "pending": Measurement("growth", "with 100 to 1,000,000 pending", _pending),
    "audit": Measurement("growth", "the audit of 1,000,000 and 10,000,000 transactions", _audit),
    "ledger": Measurement("growth", "questions to a ledger of 10,000,000 transactions", _ledger),
    "settled": Measurement("growth", "with 100,000 to 10,000,000 settled", _settled),
    "held": Measurement("growth", "1,000,000 pending, then 1,000 checks due a second", _held),
}
