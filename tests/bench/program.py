"""A program of this package in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import TracebackType

from resolver.errors import ResolverError


class Program:
    """`python -m tests.bench.NAME` with options; it ends with the `with`, or by itself.

    `body_bytes=512` is `--body-bytes=512`; True is an option without a value, None is none.
    """

    def __init__(self, name: str, **options: object) -> None:
        arguments = [_option(key, value) for key, value in options.items() if value is not None]
        self._name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.bench.{name}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate()

    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def result(self) -> str:
        """End its input, wait until it has ended, and return what it printed."""
        printed, _ = self._process.communicate()
        if self._process.returncode:
            raise ResolverError(
                f"{self._name} failed with exit code {self._process.returncode}: see above"
            )
        return printed


def until_input_ends() -> threading.Event:
    """Return an event that is set when standard input ends: who started us says so, or is dead."""
    ended = threading.Event()

    def await_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=await_end, daemon=True).start()
    return ended


def _option(key: str, value: object) -> str:
    name = f"--{key.replace('_', '-')}"
    return name if value is True else f"{name}={value}"
