"""The machine, the versions and the settings that figures belong to."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path

import confluent_kafka
import psutil

from resolver.broker.jars import KAFKA, SPARK
from resolver.broker.java import find_java
from resolver.settings import Settings

from .load import PACKED
from .rocketmq_jars import ROCKETMQ
from .scale import Scale

_GIGABYTE = 1 << 30
_LOOP_TURNS = 10_000_000


def machine() -> dict[str, str]:
    """Return what runs the measurements."""
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "CPU": _cpu_model(),
        "memory": f"{psutil.virtual_memory().total / _GIGABYTE:.0f} GB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Java": _java_version(),
        "Python": platform.python_version(),
        "Kafka": _pinned(KAFKA[0]),
        "Spark": _pinned(SPARK[0]),
        "Delta": _pinned(SPARK[-1]),
        "librdkafka": confluent_kafka.libversion()[0],
        "RocketMQ": _pinned(ROCKETMQ[0]),
    }


def loop_ms() -> float:
    """Return how long a fixed loop takes on one core: more, where the machine is disturbed."""
    started = time.perf_counter()
    for _ in range(_LOOP_TURNS):
        pass
    return (time.perf_counter() - started) * 1_000


def conditions(settings: Settings, scale: Scale) -> dict[str, str]:
    """Return what bears on speed, on both sides."""
    return {
        "windows": f"{scale.window.seconds:g} s after {scale.window.warm_up:g} s, RocketMQ's "
        f"{scale.rocketmq.seconds:g} s after {scale.rocketmq.warm_up:g} s",
        "backlog": f"{scale.transactions:,}",
        "trigger": f"{settings.trigger_interval_ms} ms",
        "a batch": f"at most {settings.max_offsets_per_trigger:,} records, of "
        f"{settings.max_bytes_per_trigger:,} bytes",
        "queues": str(settings.queues),
        "acknowledgement": "acks=all of one replica; RocketMQ: its one broker's",
        "flush": "Kafka leaves it to the operating system, RocketMQ asks for it twice a second "
        "(ASYNC_FLUSH): the defaults of both",
        "heaps": "at most 2 GB for Spark and each program of RocketMQ's, 1 GB for Kafka",
        "ops": f"packed up to {settings.op_max_bytes:,} bytes, {settings.op_linger_ms} ms at most; "
        f"{PACKED} to a record in a backlog",
        "compression": "none",
        "bodies": "of one repeated byte after 8 that count, 512 bytes where nothing else is said",
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _java_version() -> str:
    process = subprocess.run(
        [find_java(), "-version"], capture_output=True, text=True, check=True, timeout=60
    )
    return process.stderr.splitlines()[0].split('"')[1]


def _pinned(coordinates: str) -> str:
    return coordinates.rpartition(":")[2]
