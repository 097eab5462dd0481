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

from resolver.broker import rocketmq_classpath
from resolver.broker.guard import Guarded
from resolver.broker.java import find_java
from resolver.broker.ports import HOST, free_port
from resolver.errors import ResolverError

_OPENED = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
_EXAMPLES = "org.apache.rocketmq.example.benchmark"
_TOPIC = "BenchmarkTest"
_THREADS = 32
_INTERVAL_SECONDS = 5
_STARTUP_SECONDS = 120.0
_LOOK_SECONDS = 0.2
_STOP_SECONDS = 10.0
_SENT = re.compile(r"Send TPS:\s*(\d+).*?AVG RT\(ms\):\s*([\d.]+)")
_CONSUMED = re.compile(r"Consume TPS:\s*(\d+)")


class Sustained(NamedTuple):
    """What its programs said after their warm-up: medians of intervals of 5 s."""

    sent: float
    consumed: float
    round_trip_ms: float


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

    def transactions(self, body_bytes: int, warm_up_seconds: int, seconds: int) -> Sustained:
        """Run its transaction benchmark and its consumer, all transactions committed."""
        with ExitStack() as stack:
            interval = ("-ri", str(_INTERVAL_SECONDS * 1_000))
            where = ("-n", self._address, "-t", _TOPIC)
            consumer = self._run(stack, "consumer", f"{_EXAMPLES}.Consumer", *where, *interval)
            size, threads = ("-s", str(body_bytes)), ("-w", str(_THREADS))
            program = f"{_EXAMPLES}.TransactionProducer"
            producer = self._run(stack, "producer", program, *where, *threads, *size, *interval)
            time.sleep(warm_up_seconds + seconds)
            intervals = max(1, seconds // _INTERVAL_SECONDS)
            sent = _SENT.findall(producer.read_text())[-intervals:]
            consumed = _CONSUMED.findall(consumer.read_text())[-intervals:]
        if not sent or not consumed:
            raise ResolverError(f"RocketMQ's benchmark said nothing: see {producer} and {consumer}")
        return Sustained(
            statistics.median(float(rate) for rate, _ in sent),
            statistics.median(map(float, consumed)),
            statistics.median(float(ms) for _, ms in sent),
        )

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
        said = self._run(
            self._stack, "broker", "org.apache.rocketmq.broker.BrokerStartup", "-c", "broker.conf"
        )
        until = time.monotonic() + _STARTUP_SECONDS
        while "boot success" not in said.read_text():
            if time.monotonic() > until:
                raise ResolverError(
                    f"RocketMQ's broker did not come up: {said.read_text()[-2_000:]}"
                )
            time.sleep(_LOOK_SECONDS)

    def _run(self, stack: ExitStack, name: str, program: str, *arguments: str) -> Path:
        """Run one of its programs until the stack closes; return the file of what it says."""
        said = self._home / f"{name}.out"
        said.touch()
        options = ("-Xms512m", "-Xmx2g", *_OPENED, f"-Drocketmq.home.dir={self._home}")
        home = f"-Duser.home={self._home}"  # where its logs go
        command = [self._java, *options, home, "-cp", self._classpath, program, *arguments]
        process = Guarded(command, self._home, said, keep=())
        stack.callback(process.stop, _STOP_SECONDS)
        return said
