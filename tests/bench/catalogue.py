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
from .results import CaseFigures
from .rocketmq import rocketmq
from .scale import Scale
from .setup import Setup
from .start import starts

_OURS, _HISTORIES = "txresolver", 4_000
_STARTS = 10


def _rocketmq(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    warm_up, seconds = int(scale.rocketmq.warm_up), int(scale.rocketmq.seconds)
    for body in scale.bodies:
        # Start a new broker each time: one takes a core until long after its last transaction.
        with rocketmq(setup.folder()) as peer:
            figures = peer.transactions(body, warm_up, seconds)
        yield f"{body:,} bytes", figures


def _sustained(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    for body in scale.bodies:
        best = 0.0
        for form in scale.forms:
            figures = sustained(setup, scale.window, form, body)
            best = max(best, figures["per_second"])
            yield f"{body:,} bytes, {form}", figures
        yield f"{body:,} bytes, at 80 % of it", at_rate(setup, scale.window, int(0.8 * best), body)


def _latency(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    for rate in scale.rates:
        yield f"{rate:,}/s", at_rate(setup, scale.window, rate)


def _fast(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    for rate in scale.rates:
        yield f"{rate:,}/s", at_rate(setup, scale.window, rate, fast=True)
    body = scale.bodies[0]
    for form in scale.forms:
        yield f"{body:,} bytes, {form}", sustained(setup, scale.window, form, body, fast=True)


def _client(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    for form in ("thread", "threads", "asyncio", "bulk"):
        yield f"{_OURS}, {form}", producer_alone(setup, form, scale.window.seconds)
    warm_up, seconds = int(scale.rocketmq.warm_up), int(scale.rocketmq.seconds)
    for form, threads in (("thread", 1), ("threads", 32)):
        with rocketmq(setup.folder()) as peer:
            figures = peer.producer_alone(threads, warm_up, seconds)
        yield f"RocketMQ, {form}", figures


def _backlog(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    yield _OURS, backlog(setup, scale.transactions)


def _plain(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    for wait in scale.waits:
        yield f"{wait} s, backlog", plain_backlog(setup, scale.transactions, wait)
        yield f"{wait} s, 200/s", plain_at_rate(setup, scale.window, 200, wait)


def _ends(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    yield _OURS, ends_resolved(setup, _HISTORIES)
    for wait in scale.waits:
        yield f"plain join, {wait} s", ends_joined(setup, _HISTORIES, wait)


def _limit(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    yield "Spark's copy", spark_copy(setup, scale.transactions)
    yield "librdkafka", librdkafka(setup, scale.transactions)


def _checks(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    yield "on idle topics", idle_checks(setup, 100)


def _leaderless(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    yield "200/s to all others", leaderless(setup, scale.window.warm_up)


def _idle(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    yield "txresolver up", idle_cpu(setup.folder(), scale.window.seconds)


def _asleep(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    yield "39 pending", asleep_cpu(setup.folder(), 39)


def _start(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    return starts(setup.folder(), _STARTS)


def _settled(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    sizes = (100_000, 1_000_000, 10_000_000)
    return with_settled(setup, sizes, scale.transactions // 2, scale.window.seconds)


def _pending(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    sizes = (100, 10_000, 1_000_000)
    return with_pending(setup, sizes, scale.transactions // 2, scale.window.seconds)


def _held(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    yield "1,000,000 pending", held_checks(setup, 1_000_000, lead=180, seconds=60)


def _queues(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    return with_queues(setup, (1, 4, 16), scale.transactions // 2, scale.window.seconds)


def _bodies(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    sizes = (128, 512, 2_048, 16_384)
    return with_bodies(setup, sizes, scale.transactions // 2, scale.window.seconds)


def _audit(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    for transactions in (1_000_000, 10_000_000):
        yield f"{transactions:,}", audit_cost(setup, transactions)


def _ledger(setup: Setup, scale: Scale) -> Iterator[CaseFigures]:
    return ledger_cost(setup)


class Measurement(NamedTuple):
    """What `scripts/bench NAME` runs; `group` names the command that runs several."""

    group: str
    about: str
    cases: Callable[[Setup, Scale], Iterator[CaseFigures]]


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
