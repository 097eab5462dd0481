"""A process that does not outlive us, even if we die by kill -9."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

SCRIPT = Path(__file__).with_name("guard.sh")
#: The script has the numbers below for itself.
_FIRST_DESCRIPTOR = 20


class Guarded:
    """A command in a session of its own, below a shell that watches a pipe from us.

    Its own session keeps a terminal's Ctrl-C from it: who started it decides when it ends.
    `keep` are descriptors that it holds as long as it lives; `env` is ours unless given.
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
        """The session that the command and what it starts are in."""
        return self._shell.pid

    def exit_status(self) -> int | None:
        """Return the command's exit status, None while it runs."""
        return self._shell.poll()

    def stop(self, graceful_seconds: float) -> None:
        """Ask the command to end, then make it."""
        if self._shell.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._shell.wait(graceful_seconds)
        self._kill()

    def _kill(self) -> None:
        ended = self._shell.poll()
        # A shell that ended by itself has seen the command end; one that was killed has not.
        if ended is None or ended < 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        if self._shell.stdin is not None:
            self._shell.stdin.close()


@contextlib.contextmanager
def _out_of_the_way(descriptors: tuple[int, ...]) -> Iterator[list[int]]:
    """Give the same files by numbers that the script does not redirect."""
    moved = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR) for one in descriptors]
    try:
        yield moved
    finally:
        for one in moved:
            os.close(one)
