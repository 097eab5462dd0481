"""Python's collector of cycles, put off while a batch is worked on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_put_off() -> Iterator[None]:
    """Keep the collector from running: as a decorator, so that what a call made is gone then.

    A batch makes a million objects that have no cycles; walking all of them again and again is
    half of what working on them costs. Reference counts free them all the same.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
