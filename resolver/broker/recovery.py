"""Recovery of a killed broker, before it starts again.

Kafka 4.3 alone would lose the end of a transaction here. It would also hide a partition's new
messages from `read_committed` for good:

1. The controller still takes the killed broker for alive.
2. The new broker loads the transactions that were being ended. It can't write their markers before
   it is up.
3. The old session runs out, and the new broker is fenced.
4. It finds its partitions without a leader, and takes them for deleted.
5. It notes the transactions as ended, without markers.

So the old session ends first: the same node runs as a controller only, with a short session, until
it has fenced the broker.
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
#: Time in seconds from the controller's start of work. By then it has fenced a broker that counts
#: as alive.
FENCED_SECONDS = 4.0
#: Time in seconds from the log line about fencing until the record is written. A controller that is
#: told to stop does not wait for its records.
WRITTEN_SECONDS = 1.0
POLL_SECONDS = 0.05

_ACTIVE = "Performing controller activation"
_FENCED = "because its session has timed out"


def needs_recovery(home: Path) -> bool:
    """Whether the broker of a formatted `home` was killed: Kafka marks a regular stop."""
    return not (home / DATA / ".kafka_cleanshutdown").exists()


def recover(home: Path, ports: Ports, launch: Callable[[str, str], Guarded], limit: float) -> None:
    """Run the controller until the killed broker is fenced, for `limit` seconds at most.

    `launch` starts Kafka with a file of properties and the name of its log. Raises `BrokerError`
    where the broker is not fenced in time.
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
        logged = log.read_text(errors="replace") if log.exists() else ""
        now = time.monotonic()
        if active_at is None and _ACTIVE in logged:
            active_at = now
        if _FENCED in logged:
            time.sleep(WRITTEN_SECONDS)
            return
        if active_at is not None and now > active_at + FENCED_SECONDS:
            return  # the broker was fenced before it was killed
        if controller.exit_status() is not None or now > until:
            tail = "\n  ".join(logged.splitlines()[-20:])
            raise BrokerError(f"the killed broker can't be recovered. The end of {log}:\n  {tail}")
        time.sleep(POLL_SECONDS)
