"""Locks on files: one process at a time in a folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

POLL_SECONDS = 0.1


class FileLock:
    """A lock that the system releases when its last holder has ended, in whatever way.

    The file has its owner's process id, for messages. A child that is given the descriptor
    (`fileno`) holds the lock too: a child that outlives its parent for a moment keeps others out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def fileno(self) -> int:
        if self._descriptor is None:
            raise ValueError(f"the lock {self.path} is not held")
        return self._descriptor

    def try_acquire(self) -> bool:
        """Take the lock if nobody holds it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return False
            raise
        self._descriptor = descriptor
        return True

    def acquire(self, waiting: Callable[[], object]) -> None:
        """Take the lock, however long it takes; call `waiting` once if the lock is not free."""
        told = False
        while not self.try_acquire():
            if not told:
                waiting()
                told = True
            time.sleep(POLL_SECONDS)

    def acquire_after(self, dying_seconds: float) -> bool:
        """Take the lock; wait up to `dying_seconds`, and only for children of a dead owner."""
        until = time.monotonic() + dying_seconds
        while not self.try_acquire():
            if self.owner_is_alive() or time.monotonic() > until:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def owner(self) -> int | None:
        """Return the process id of the last owner; None if it is not known."""
        try:
            return int(self.path.read_text())
        except (OSError, ValueError):
            return None

    def owner_is_alive(self) -> bool:
        owner = self.owner()
        if owner is None:  # just taken: its owner is about to write
            return True
        try:
            os.kill(owner, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # another user's process
            return True
        return True

    def release(self) -> None:
        """Release the lock; children that hold the descriptor keep it."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
