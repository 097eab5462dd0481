"""What a broker needs before it starts again after it was killed.

Kafka 4.3 alone would lose the end of a transaction here, and hide a partition's new messages
from `read_committed` for ever. The controller still takes the killed broker for alive; the new
one loads the transactions that were being ended, can't write their markers before it is up, is
fenced when the old session runs out, finds its partitions without a leader, takes them for
deleted, and notes the transactions as ended without markers. So the old session ends first:
the same node runs as a controller only, with a short session, until it has fenced the broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ..errors import BrokerError
from .guard import Guarded
from .ports import Ports
from .properties import CONTROLLER_FILE, DATA, write_controller_properties

LOG = "recovery.log"
SESSION_TIMEOUT_MS = 1_000
#: How long after the controller has begun its work a broker that counts as alive is fenced.
FENCED_SECONDS = 4.0
#: From its saying that it fences the broker until that is in its log: records are not waited for
#: by a controller that is told to stop.
WRITTEN_SECONDS = 1.0
POLL_SECONDS = 0.05

_ACTIVE = "Performing controller activation"
_FENCED = "because its session has timed out"


def needs_recovery(home: Path) -> bool:
    """Whether the broker of a formatted `home` was killed: Kafka marks the regular stop."""
    return not (home / DATA / ".kafka_cleanshutdown").exists()


def recover(home: Path, ports: Ports, launch: Callable[[str, str], Guarded], limit: float) -> None:
    """Run the controller until the killed broker is fenced; raises BrokerError after `limit`.

    `launch` starts Kafka with a file of properties and the name of its log.
    """
    (home / LOG).unlink(missing_ok=True)
    write_controller_properties(home, ports, SESSION_TIMEOUT_MS)
    controller = launch(CONTROLLER_FILE, LOG)
    try:
        _await_fenced(home / LOG, controller, limit)
    finally:
        controller.stop(graceful_seconds=10)


def _await_fenced(log: Path, controller: Guarded, limit: float) -> None:
    until = time.monotonic() + limit
    active_at: float | None = None
    while True:
        said = log.read_text(errors="replace") if log.exists() else ""
        now = time.monotonic()
        if active_at is None and _ACTIVE in said:
            active_at = now
        if _FENCED in said:
            time.sleep(WRITTEN_SECONDS)
            return
        if active_at is not None and now > active_at + FENCED_SECONDS:
            return  # it was fenced before it was killed
        if controller.exit_status() is not None or now > until:
            tail = "\n  ".join(said.splitlines()[-20:])
            raise BrokerError(f"the killed broker can't be recovered. The end of {log}:\n  {tail}")
        time.sleep(POLL_SECONDS)
