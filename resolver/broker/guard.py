"""A process that does not outlive this one, even after a kill -9."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

SCRIPT = Path(__file__).with_name("guard.sh")
#: First descriptor that the script does not use for itself.
_FIRST_DESCRIPTOR = 20


class Guarded:
    """A command in a session of its own, below a shell that watches a pipe from this process.

    Its own session keeps a terminal's Ctrl-C from the command: its starter decides when it ends.
    The command holds the descriptors `keep` as long as it lives. `env` is this process's unless
    given.
    """

    def __init__(
        self,
        command: list[str],
        folder: Path,
        out: Path,
        keep: tuple[int, ...],
        env: Mapping[str, str] | None = None,
    ) -> None:
        with _out_of_the_way(keep) as kept:
            self._shell = subprocess.Popen(
                ["/bin/sh", str(SCRIPT), str(out), *command],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=kept,
                env=env,
                start_new_session=True,
            )
        if self._shell.stdout is None:
            raise AssertionError("the guard's output is a pipe")
        with self._shell.stdout as printed:
            self.pid = int(printed.readline() or 0)

    @property
    def session(self) -> int:
        """The session of the command and of the processes that it starts."""
        return self._shell.pid

    def exit_status(self) -> int | None:
        """Return the command's exit status; None while it runs."""
        return self._shell.poll()

    def stop(self, graceful_seconds: float) -> None:
        """Ask the command to end; kill it after `graceful_seconds`."""
        if self._shell.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._shell.wait(graceful_seconds)
        self._kill()

    def _kill(self) -> None:
        ended = self._shell.poll()
        # Spare a shell that ended by itself: it has seen the command end. A killed shell has not.
        if ended is None or ended < 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        if self._shell.stdin is not None:
            self._shell.stdin.close()


@contextlib.contextmanager
def _out_of_the_way(descriptors: tuple[int, ...]) -> Iterator[list[int]]:
    """Duplicate descriptors to numbers that the script does not redirect."""
    moved = [
        fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR)
        for descriptor in descriptors
    ]
    try:
        yield moved
    finally:
        for descriptor in moved:
            os.close(descriptor)
