"""Samples of a world, a line of JSON each: what processes and files take, time of a batch."""

from __future__ import annotations

import json
import os
import re
import time
from collections import defaultdict
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import psutil

from resolver.spark.points import Point
from resolver.up.home import Home

from .process import Victim
from .world import World
from .world_kind import SHORTENED

#: The folders whose files are counted.
_FOLDERS = (
    "first/checkpoints",
    "first/checkpoints/resolve/spark/state",
    "first/spark",
    "first/tables",
    "broker/data",
)
#: What must be flat at the end, and how much more of it there may be than in the second third. Not
#: a JVM's memory, which grows to its limit, nor tables and topics, which keep all. The time of a
#: batch is judged by that of the machine, which others may slow down.
_FLAT = re.compile(
    r"(python|workers): |: (descriptors|threads|heap)|state: "
    r"|first/(checkpoints|spark): files|batch / machine"
)
_MAY_GROW = 1.15
_HEAP = "the resolver, java: heap MiB"
#: What the resolver's JVM must be started with, so that the heap in use is told, and often.
JVM_SETTINGS = {
    "spark.driver.memory": "640m",
    "spark.driver.extraJavaOptions": f"{SHORTENED['spark.driver.extraJavaOptions']} -Xlog:gc",
}
_FULL_COLLECTION = re.compile(r"Pause Full .*?->(\d+)M\(")
_BATCH = re.compile(
    rf"^(\d{{4}}-\S+ \S+) DEBUG batch \d+: ({Point.DECIDING}|{Point.DONE})", re.MULTILINE
)
_MIB = 1 << 20
#: Turns of a fixed computation: about 50 ms.
_ROUNDS = 1_000_000


class Samples:
    """The file of a soak's samples."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self) -> None:
        """Forget the samples of an earlier soak."""
        self._path.unlink(missing_ok=True)

    def take(self, world: World) -> None:
        """Add a sample of the world as it is now."""
        sample: dict[str, float] = {"at": round(time.time(), 1)}
        for process in (world.broker, world.resolver, world.agent, world.load):
            if process is not None:
                sample |= _taken(process)
        for folder in _FOLDERS:
            count, size = _files(world.home / folder)
            sample |= {f"{folder}: files": count, f"{folder}: MiB": size / _MIB}
        if world.resolver is not None:
            batch, machine = batch_seconds(world.resolver.log), _machine_seconds()
            sample |= {"batch: s": batch, "machine: ms": 1_000 * machine}
            sample["batch / machine"] = batch / machine
            sample |= _heap(Home(world.resolver_home).spark_log)
        with self._path.open("a") as file:
            file.write(json.dumps({name: round(value, 3) for name, value in sample.items()}) + "\n")

    def table(self) -> str:
        """Return a row for each figure: its mean in the first, second and last third."""
        rows = [
            f"| {name} | {' | '.join(f'{mean:,.2f}' for mean in means)} |"
            for name, means in self._thirds().items()
        ]
        return "\n".join(
            ["| | first third | second | last |", "| --- | ---: | ---: | ---: |", *rows]
        )

    def grown(self) -> list[str]:
        """Return the figures that should be flat in the end, and are not or were never told."""
        thirds = self._thirds()
        untold = [f"{_HEAP}: no full collection in a third of the time"]
        return [
            f"{name}: {second:,.2f}, then {last:,.2f}"
            for name, (_, second, last) in thirds.items()
            if _FLAT.search(name) and last > _MAY_GROW * second
        ] + (untold if 0.0 in thirds.get(_HEAP, (0.0,)) else [])

    def _thirds(self) -> dict[str, tuple[float, float, float]]:
        lines = [json.loads(line) for line in self._path.read_text().splitlines()]
        names = list(dict.fromkeys(name for line in lines for name in line))[1:]
        return {name: _thirds(lines, name) for name in names}


def _taken(process: Victim) -> dict[str, float]:
    """Return what the programs of a process take: memory (resident), descriptors, threads."""
    sums: dict[str, float] = defaultdict(float)
    for member in process.members():
        with suppress(psutil.Error):
            name = f"{process.name}, {_program(member)}"
            with member.oneshot():
                sums[f"{name}: MiB"] += member.memory_info().rss / _MIB
                sums[f"{name}: descriptors"] += member.num_fds()
                sums[f"{name}: threads"] += member.num_threads()
    return sums


def _program(member: psutil.Process) -> str:
    if member.name() in ("java", "jspawnhelper"):  # what Java forks has its descriptors at first
        return "java"
    return "workers" if "pyspark.daemon" in member.cmdline() else "python"


def _machine_seconds() -> float:
    """Return what CPU time a fixed computation takes: more where others use the same cores."""
    begun = time.process_time()
    sum(number * number for number in range(_ROUNDS))
    return time.process_time() - begun


def _heap(log: Path) -> dict[str, float]:
    """Return what was in use after the last full collection; nothing before the first."""
    heaps = _FULL_COLLECTION.findall(_end_of(log)) if log.exists() else []
    return {_HEAP: float(heaps[-1])} if heaps else {}


def _files(folder: Path) -> tuple[int, float]:
    count, size = 0, 0
    for directory, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # removed meanwhile
                size += os.lstat(os.path.join(directory, name)).st_size
                count += 1
    return count, size


def batch_seconds(log: Path) -> float:
    """Return how long the last batches took from their reading to Spark's commit log."""
    begun, waits = 0.0, []
    for logged_at, what in _BATCH.findall(_end_of(log)):
        seconds = datetime.strptime(logged_at, "%Y-%m-%d %H:%M:%S,%f").timestamp()
        if what == Point.DECIDING:
            begun = seconds
        elif begun:
            waits.append(seconds - begun)
    return sum(waits) / len(waits) if waits else 0.0


def _end_of(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 16_384))
        return file.read().decode(errors="replace")


def _thirds(lines: list[dict[str, float]], name: str) -> tuple[float, float, float]:
    size = max(1, len(lines) // 3)

    def mean(third: list[dict[str, float]]) -> float:
        return _mean([line[name] for line in third if name in line])

    return mean(lines[:size]), mean(lines[size : 2 * size]), mean(lines[2 * size :])


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
