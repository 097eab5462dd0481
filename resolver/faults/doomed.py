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
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

#: What the last line begins with.
HIT = "hit at: "


@dataclass(frozen=True)
class Doom:
    """A signal at the next line in which a pattern is found.

    It hits `all` that the process has started and itself, only its `python`, or only Spark's
    `jvm`.
    """

    pattern: str
    victim: str = "all"
    signal: int = signal.SIGKILL

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


class _Handler(logging.Handler):
    def __init__(self, file: Path) -> None:
        super().__init__(logging.DEBUG)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        doom = Doom.take(self._file, line)
        if doom is not None:
            os.write(2, f"{HIT}{line}\n".encode())
            _carry_out(doom)


def _carry_out(doom: Doom) -> None:
    me = psutil.Process()
    for process in me.children(recursive=True):
        if doom.victim == "all" or (doom.victim == "jvm" and process.name() == "java"):
            process.send_signal(doom.signal)
    if doom.victim != "jvm":
        os.kill(me.pid, doom.signal)


def main(file: str, command: str, *arguments: str) -> None:
    """Run the command."""
    handler = _Handler(Path(file))
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
