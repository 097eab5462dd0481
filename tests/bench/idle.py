"""What `txresolver up` costs while nothing happens: broker, both queries, default trigger.

It may have pending transactions meanwhile, of a group that nobody answers for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from resolver import Message, TransactionProducer
from resolver.errors import ResolverError

from .load import GROUP
from .processes import BESIDES, spent, usage
from .results import Figures

_STOP_SECONDS = 90.0
#: After it says that it is ready, until the JVM has compiled what it compiles then.
_SETTLING_SECONDS = 15.0
#: Time in which halves arrive that nobody ends, so that they are not due at once.
_ARRIVING_SECONDS = 30.0
#: Until their checks are 10 minutes apart: after 6, 30, 60, 120, 240 and 480 s.
_BACKING_OFF_SECONDS = 940.0
#: A round of checks of each half.
_ROUND_SECONDS = 600.0


def asleep_cpu(home: Path, pending: int) -> Figures:
    """Measure the same with pending halves, once their checks are 10 minutes apart."""
    return idle_cpu(home, _ROUND_SECONDS, pending)


def idle_cpu(home: Path, seconds: float, pending: int = 0) -> Figures:
    """Run it in a process of its own, and return the cores that each part uses."""
    process = subprocess.Popen(
        [sys.executable, "-m", "resolver", "up", "--home", str(home)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        bootstrap = _await_ready(process)
        if pending:
            _leave_pending(bootstrap, pending)
            time.sleep(_BACKING_OFF_SECONDS)
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
        if role not in BESIDES  # which are no processes of `up`
    }
    return {"cores": sum(cores.values()), "cores_by_process": cores, "memory_mb": after.memory}


def _leave_pending(bootstrap: str, count: int) -> None:
    with TransactionProducer(
        GROUP, bootstrap, checks_elsewhere=True, check_real_topics=False
    ) as producer:
        for number in range(count):
            producer.begin(Message("real", b"%d" % number))
            time.sleep(_ARRIVING_SECONDS / count)


def _await_ready(process: subprocess.Popen[str]) -> str:
    """Return the address of its broker."""
    for line in process.stdout or ():
        if line.startswith("ready:"):
            return line.partition("bootstrap=")[2].split()[0]
    raise ResolverError("txresolver up ended before it was ready: see above")
