"""The stages of a start: what has begun, how long it lasts, and when it is done."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)

#: Seconds between two lines about a stage that lasts: a silent start looks like one that hangs.
_STILL_SECONDS = 10.0


@contextmanager
def stage(doing: str, done: str) -> Iterator[None]:
    """Say that a stage begins, every ten seconds that it lasts, and that it is done.

    `doing` is a text such as "starting Spark", `done` one such as "Spark runs". A stage that fails
    is not called done.
    """
    began = time.monotonic()
    ended = threading.Event()

    def seconds() -> float:
        return time.monotonic() - began

    def tell_while_it_lasts() -> None:
        while not ended.wait(_STILL_SECONDS):
            logger.info("still %s, %.0f s so far", doing.partition(" (")[0], seconds())

    logger.info("%s", doing)
    teller = threading.Thread(target=tell_while_it_lasts, name="txresolver-stage", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
    logger.info("%s, after %.1f s", done, seconds())
