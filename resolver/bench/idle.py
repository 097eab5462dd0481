"""What `txresolver up` costs while nothing happens: broker, both queries, default trigger."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from resolver.bench.processes import BESIDES, spent, usage
from resolver.bench.results import Figures
from resolver.errors import ResolverError

_STOP_SECONDS = 90.0
#: After it says that it is ready, until the JVM has compiled what it compiles then.
_SETTLING_SECONDS = 15.0


def idle_cpu(home: Path, seconds: float) -> Figures:
    """Run it in a process of its own, and return the cores that each part uses."""
    process = subprocess.Popen(
        [sys.executable, "-m", "resolver", "up", "--home", str(home)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        _await_ready(process)
        time.sleep(_SETTLING_SECONDS)
        before = usage(process.pid)
        time.sleep(seconds)
        after = usage(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=_STOP_SECONDS)
    cores = {
        role: used / seconds
        for role, used in spent(before, after).items()
        if role not in BESIDES  # which has what only stands by meanwhile
    }
    return {"cores": sum(cores.values()), "cores_by_process": cores, "memory_mb": after.memory}


def _await_ready(process: subprocess.Popen[str]) -> None:
    for line in process.stdout or ():
        if line.startswith("ready:"):
            return
    raise ResolverError("txresolver up ended before it was ready: see above")
