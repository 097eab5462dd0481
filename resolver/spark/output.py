"""The output of processes that are started: Spark's JVM has no output of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

STDERR = 2
_STREAMS = (1, STDERR)


@contextmanager
def output_to(descriptor: int) -> Iterator[None]:
    """Let processes that start in the block write to a descriptor instead of our output."""
    sys.stdout.flush()
    sys.stderr.flush()
    target, kept = os.dup(descriptor), {stream: os.dup(stream) for stream in _STREAMS}
    for stream in _STREAMS:
        os.dup2(target, stream)
    try:
        yield
    finally:
        for stream, original in kept.items():
            os.dup2(original, stream)
            os.close(original)
        os.close(target)
