"""CPU and memory of all processes of a measurement, by their role."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import NamedTuple

import psutil

#: What a command line has, and the role that it gives away.
_ROLES = {
    "kafka.Kafka": "Kafka",
    "org.apache.spark.deploy": "Spark's JVM",
    "pyspark.daemon": "Python workers",
    "tests.bench.send": "producer",
    "tests.bench.load": "producer",
    "tests.bench.client": "producer",
    "tests.bench.watch": "consumer",
    "NamesrvStartup": "RocketMQ's name server",
    "BrokerStartup": "RocketMQ's broker",
    "benchmark.TransactionProducer": "producer",
    "benchmark.Consumer": "consumer",
}
_DRIVER = "driver"
_BUSY = ("user", "nice", "system", "irq", "softirq")
_ELSEWHERE, _STEAL = "elsewhere", "steal"
#: What is not of the processes that are measured.
BESIDES = (_ELSEWHERE, _STEAL)
_LOOK_SECONDS = 2.0
_MEGABYTE = 1 << 20


class Usage(NamedTuple):
    """CPU seconds so far and memory (RSS, MB) of each role.

    `busy`: CPU seconds of all there is; `stolen`: those that the machine was denied.
    """

    cpu: dict[str, float]
    memory: dict[str, float]
    busy: float
    stolen: float


def usage(root: int | None = None) -> Usage:
    """Return the usage of a process and all below it; by itself `root` is a driver."""
    cpu: dict[str, float] = {}
    memory: dict[str, float] = {}
    top = psutil.Process(root or os.getpid())
    for process in [top, *top.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            role = _DRIVER if process == top else _role(process)
            cpu[role] = cpu.get(role, 0.0) + _cpu_seconds(process, role)
            memory[role] = memory.get(role, 0.0) + process.memory_info().rss / _MEGABYTE
    whole = psutil.cpu_times()._asdict()
    busy = sum(whole.get(kind, 0.0) for kind in _BUSY)
    return Usage(cpu, memory, busy, whole.get("steal", 0.0))


def spent(before: Usage, after: Usage) -> dict[str, float]:
    """Return the CPU seconds between two looks, of roles that used any.

    `elsewhere` is what the machine did besides, `steal` what it was denied by those that share its
    cores: where one is much, something disturbed.
    """
    seconds = {role: used - before.cpu.get(role, 0.0) for role, used in after.cpu.items()}
    seconds[_ELSEWHERE] = after.busy - before.busy - sum(seconds.values())
    seconds[_STEAL] = after.stolen - before.stolen
    return {role: used for role, used in seconds.items() if used > 0}


def _role(process: psutil.Process) -> str:
    command = " ".join(process.cmdline())
    return next((role for part, role in _ROLES.items() if part in command), "other")


def _cpu_seconds(process: psutil.Process, role: str) -> float:
    times = process.cpu_times()
    used = times.user + times.system
    if role in ("Python workers", "Spark's JVM"):  # which end some that they have started
        used += times.children_user + times.children_system
    return float(used)


class Peak:
    """The most memory that each role had while the `with` lasted."""

    def __init__(self) -> None:
        self.memory: dict[str, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            for role, used in usage().memory.items():
                self.memory[role] = max(used, self.memory.get(role, 0.0))
            if self._ended.wait(_LOOK_SECONDS):
                return
