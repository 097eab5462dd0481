"""The resolver, as it is hit at a line of its own log: `python -m resolver.faults.doomed`.

    python -m resolver.faults.doomed FILE COMMAND ARGUMENT...

COMMAND is `txresolver` or `resolve`, the job by itself. FILE may name a doom at any time; a log
handler carries it out, and the line is the proof of where it was. Nothing in the resolver knows.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

#: What the last line begins with.
HIT = "hit at: "


@dataclass(frozen=True)
class Doom:
    """A signal at the next line in which a pattern is found, or so long after it.

    First it hits the `others`, other processes by their ids; then `all` that the process has
    started and itself, only its `python`, only Spark's `jvm`, or `none` of these.
    """

    pattern: str
    victim: str = "all"
    number: int = signal.SIGKILL
    others: list[int] = field(default_factory=list)
    after_ms: float = 0

    def write(self, file: Path) -> None:
        """Let it hold from now on."""
        new = file.with_suffix(".new")
        new.write_text(json.dumps(asdict(self)))
        new.replace(file)

    @classmethod
    def take(cls, file: Path, line: str) -> Doom | None:
        """Return the doom of a line; it comes once."""
        try:
            doom = cls(**json.loads(file.read_text()))
            if not re.search(doom.pattern, line):
                return None
            file.unlink()
        except FileNotFoundError:
            return None
        return doom


class DoomHandler(logging.Handler):
    """Carries out what a file says, at its line."""

    def __init__(self, file: Path) -> None:
        super().__init__(logging.DEBUG)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        doom = Doom.take(self._file, line)
        if doom is None:
            return
        if doom.after_ms:  # meanwhile it goes on
            threading.Timer(doom.after_ms / 1_000, _carry_out, (doom, line)).start()
        else:
            _carry_out(doom, line)


def _carry_out(doom: Doom, line: str) -> None:
    os.write(2, f"{HIT}{line}\n".encode())
    for other in doom.others:
        with suppress(ProcessLookupError):
            os.kill(other, doom.number)
    me = psutil.Process()
    for process in me.children(recursive=True):
        with suppress(psutil.Error):  # gone meanwhile
            if doom.victim == "all" or (doom.victim == "jvm" and process.name() == "java"):
                process.send_signal(doom.number)
    if doom.victim in ("all", "python"):
        os.kill(me.pid, doom.number)


def main(file: str, command: str, *arguments: str) -> None:
    """Run the command."""
    handler = DoomHandler(Path(file))
    for name in ("resolver", "pipelines"):
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.DEBUG)
    if command == "resolve":
        from pipelines.resolve import main as resolve

        sys.exit(resolve(arguments))
    from ..cli import main as txresolver

    sys.argv[1:] = arguments
    txresolver()


if __name__ == "__main__":
    main(*sys.argv[1:])
