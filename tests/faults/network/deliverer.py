"""Delivery without Spark: `python -m tests.faults.network.deliverer SERVERS`.

It delivers what the sent log has, batch by batch. Started again, it begins with the last batch that
the sent log has, as Spark does with the last one that it has planned.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

from resolver.broker.signals import until_stopped
from resolver.errors import TxResolverError
from resolver.protocol import Names
from resolver.resolve.delivery import Delivery
from resolver.settings import Settings

from ..load import SENT_LOG
from ..sent_log import SentLog
from .batches import Batches

_CHECKPOINT = "bare"
_LOOK_SECONDS = 0.01


def main(servers: str) -> None:
    """Deliver until SIGINT or SIGTERM, or until delivery ends by itself."""
    logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(levelname)s %(message)s")
    batches = Batches(SentLog(Path(os.environ[SENT_LOG])), Names())
    with until_stopped():
        delivery = Delivery(Settings(bootstrap_servers=servers), _CHECKPOINT)
        try:
            _deliver(delivery, batches)
        except TxResolverError as error:
            sys.exit(f"error: {error}")
        finally:
            delivery.close()


def _deliver(delivery: Delivery, batches: Batches) -> None:
    batch = max(0, batches.last)
    delivery.start(is_new=batch == 0, last_planned=lambda: batches.last)
    print("ready: delivering", flush=True)
    while True:
        while not batches.has(batch):
            time.sleep(_LOOK_SECONDS)
            if delivery.has_parked:  # as the resolver's fence timer does
                delivery.release()
        delivery.deliver(batch, batches.parts(batch))
        print(f"delivered: {batch}", flush=True)
        batch += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
