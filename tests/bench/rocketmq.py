"""RocketMQ by its own benchmark programs: the peer that ours is compared with."""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from resolver.broker.guard import Guarded
from resolver.broker.java import find_java
from resolver.broker.ports import HOST, free_port
from resolver.errors import ResolverError

from .processes import Peak, spent, usage
from .results import Figures, per_million
from .rocketmq_jars import rocketmq_classpath

_OPENED = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
_EXAMPLES = "org.apache.rocketmq.example.benchmark"
#: Topic that its broker makes at the first message, with a few queues. The benchmark's own topic
#: has 1,024, and a consumer takes their messages one by one.
_TOPIC = "bench"
_THREADS = 32
#: Seconds between two reports. A report is of the last ten seconds, whatever the interval is.
_INTERVAL_SECONDS = 10
_STARTUP_SECONDS = 120.0
_LOOK_SECONDS = 0.2
_STOP_SECONDS = 10.0
_OURS = ("driver", "Kafka", "Spark's JVM", "Python workers", "other")
_SENT = re.compile(r"Send TPS:\s*(\d+).*?AVG RT\(ms\):\s*([\d.]+)")
_FAILED = re.compile(r"Send Failed:\s*(\d+)")
_CONSUMED = re.compile(r"Consume TPS:\s*(\d+).*?AVG\(B2C\) RT\(ms\):\s*([\d.]+)")


class Interval(NamedTuple):
    """A program's report of an interval: transactions a second, and milliseconds."""

    per_second: float
    ms: float


@contextmanager
def rocketmq(home: Path) -> Iterator[RocketMQ]:
    """Run RocketMQ, all its data below `home`, for as long as the `with` lasts."""
    home.mkdir(parents=True)
    with ExitStack() as stack:
        peer = RocketMQ(home, stack)
        peer.start()
        yield peer


class RocketMQ:
    """A name server and a broker with their defaults, which end with `stack`."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self._home = home
        self._stack = stack
        self._java = str(find_java())
        self._classpath = os.pathsep.join(map(str, rocketmq_classpath()))
        self._address = f"{HOST}:{free_port()}"

    def transactions(self, body_bytes: int, warm_up_seconds: int, seconds: int) -> Figures:
        """Run its transaction benchmark and its consumer, all transactions committed.

        Figures are medians of its reports after the warm-up. `before_per_second` is of the last
        report before, `sent_by_time` of all: they rise no more if the warm-up was long enough.
        """
        intervals = seconds // _INTERVAL_SECONDS
        with ExitStack() as stack:
            consumer = self._example(stack, "Consumer")
            figures = self._produce(stack, _THREADS, body_bytes, warm_up_seconds, seconds)
            consumed = _await_intervals(_CONSUMED, consumer, intervals)[-intervals:]
        rate = statistics.median(interval.per_second for interval in consumed)
        return {
            **figures,
            "per_second": min(figures["sent_per_second"], rate),
            "consumed_per_second": rate,
            "born_to_consumed_ms": statistics.median(interval.ms for interval in consumed),
        }

    def producer_alone(self, threads: int, warm_up_seconds: int, seconds: int) -> Figures:
        """Run its transaction benchmark with nothing behind it."""
        with ExitStack() as stack:
            figures = self._produce(stack, threads, 512, warm_up_seconds, seconds)
        return {
            "per_second": figures["sent_per_second"],
            "round_trip_mean_ms": figures["round_trip_ms"],
            "cpu_us": figures["cpu_per_million"]["producer"],
        }

    def _produce(
        self, stack: ExitStack, threads: int, body_bytes: int, warm_up_seconds: int, seconds: int
    ) -> Figures:
        warm_up, intervals = warm_up_seconds // _INTERVAL_SECONDS, seconds // _INTERVAL_SECONDS
        how = ("-w", str(threads), "-s", str(body_bytes))
        producer = self._example(stack, "TransactionProducer", *how)
        _await_intervals(_SENT, producer, warm_up)
        with Peak() as peak:
            before, started = usage(), time.monotonic()
            sent = _await_intervals(_SENT, producer, warm_up + intervals)
            after, took = usage(), time.monotonic() - started
        rate = statistics.median(interval.per_second for interval in sent[-intervals:])
        failed = _FAILED.findall(producer.read_text())
        return {
            "sent_per_second": rate,
            "round_trip_ms": statistics.median(interval.ms for interval in sent[-intervals:]),
            "before_per_second": sent[-intervals - 1].per_second,
            "sent_by_time": _by_time(sent),
            "failed": int(failed[-1]) if failed else 0,
            **per_million(beside_ours(spent(before, after)), rate * took),
            "memory_mb": beside_ours(peak.memory),
        }

    def _example(self, stack: ExitStack, name: str, *how: str) -> Path:
        """Run a program of its benchmark until the stack closes; return the file of its output."""
        interval = str(_INTERVAL_SECONDS * 1_000)
        where = ("-n", self._address, "-t", _TOPIC, "-ri", interval)
        return self._run(stack, name, f"{_EXAMPLES}.{name}", *where, *how)

    def start(self) -> None:
        """Start both; raises `ResolverError` if they don't come up."""
        port = self._address.rpartition(":")[2]
        (self._home / "namesrv.conf").write_text(f"listenPort={port}\n")
        self._run(
            self._stack,
            "namesrv",
            "org.apache.rocketmq.namesrv.NamesrvStartup",
            "-c",
            "namesrv.conf",
        )
        settings = {
            "brokerClusterName": "bench",
            "brokerName": "bench",
            "brokerId": 0,
            "brokerIP1": HOST,
            "listenPort": free_port(),
            "haListenPort": free_port(),
            "namesrvAddr": self._address,
            "storePathRootDir": self._home / "store",
            "storePathCommitLog": self._home / "store" / "commitlog",
            "autoCreateTopicEnable": "true",
        }
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        (self._home / "broker.conf").write_text("".join(lines))
        output = self._run(
            self._stack, "broker", "org.apache.rocketmq.broker.BrokerStartup", "-c", "broker.conf"
        )
        until = time.monotonic() + _STARTUP_SECONDS
        while "boot success" not in output.read_text():
            if time.monotonic() > until:
                raise ResolverError(
                    f"RocketMQ's broker did not come up: {output.read_text()[-2_000:]}"
                )
            time.sleep(_LOOK_SECONDS)

    def _run(self, stack: ExitStack, name: str, program: str, *arguments: str) -> Path:
        """Run one of its programs until the stack closes; return the file of its output."""
        output = self._home / f"{name}.out"
        output.write_text("")  # a round must not read what an earlier one said
        options = ("-Xms512m", "-Xmx2g", *_OPENED, f"-Drocketmq.home.dir={self._home}")
        home = f"-Duser.home={self._home}"  # where its logs go
        command = [self._java, *options, home, "-cp", self._classpath, program, *arguments]
        process = Guarded(command, self._home, output, keep=())
        stack.callback(process.stop, _STOP_SECONDS)
        return output


def _await_intervals(pattern: re.Pattern[str], file: Path, times: int) -> list[Interval]:
    """Wait until a program has reported `times` intervals; its first report comes after 10 s."""
    until = time.monotonic() + _STARTUP_SECONDS + 2 * times * _INTERVAL_SECONDS
    while True:
        intervals = pattern.findall(file.read_text())
        if len(intervals) >= times:
            return [Interval(float(rate), float(ms)) for rate, ms in intervals]
        if time.monotonic() > until:
            raise ResolverError(
                f"RocketMQ's {file.stem} said how fast it is {len(intervals)} times, not {times}: "
                f"{file.read_text()[-2_000:]}"
            )
        time.sleep(_LOOK_SECONDS)


def _by_time(intervals: list[Interval]) -> dict[str, float]:
    """Return its rates by the seconds since its start, written so that they sort."""
    return {
        f"{number * _INTERVAL_SECONDS:3} s": interval.per_second
        for number, interval in enumerate(intervals, start=1)
    }


def beside_ours(figures: dict[str, float]) -> dict[str, float]:
    """Return its figures, and those of what only stands by meanwhile, Kafka and Spark, as one."""
    its_own = {role: figure for role, figure in figures.items() if role not in _OURS}
    standing_by = sum(figure for role, figure in figures.items() if role in _OURS)
    return {**its_own, "stands by": standing_by}
