"""The resolver, as it is hit at a line of its own log: `python -m tests.faults.doomed`.

    python -m tests.faults.doomed FILE COMMAND ARGUMENT...

COMMAND is `txresolver` or `resolve`, the job by itself. FILE may name a doom at any time; a log
handler carries it out, and the line is the proof of where it was. Nothing in the resolver knows.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from resolver.spark.points import Point

#: What the last line begins with.
HIT = "hit at: "


@dataclass(frozen=True)
class Doom:
    """A signal at the next line of a point, or `after_ms` later; `table`: of which table's rows.

    First it hits the `others`, other processes by their ids. Then it hits `all` that the process
    has started and itself, only its `python`, only Spark's `jvm`, or `none` of these.
    """

    point: Point
    victim: str = "all"
    number: int = signal.SIGKILL
    others: list[int] = field(default_factory=list)
    after_ms: float = 0
    table: str | None = None

    def write(self, file: Path) -> None:
        """Let it hold from now on."""
        new = file.with_suffix(".new")
        new.write_text(json.dumps(asdict(self)))
        new.replace(file)

    @classmethod
    def take(cls, file: Path, record: logging.LogRecord) -> Doom | None:
        """Return the doom of a line; it comes once."""
        try:
            written = json.loads(file.read_text())
            doom = cls(**{**written, "point": Point(written["point"])})
            if not doom.is_at(record):
                return None
            file.unlink()
        except FileNotFoundError:
            return None
        return doom

    def is_at(self, record: logging.LogRecord) -> bool:
        """Whether a line tells of the point."""
        values = record.args if isinstance(record.args, tuple) else ()
        return self.point in values and self.table in (None, *values)


class DoomHandler(logging.Handler):
    """Carries out what a file says, at its line."""

    def __init__(self, file: Path) -> None:
        super().__init__(logging.DEBUG)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        doom = Doom.take(self._file, record)
        if doom is None:
            return
        line = record.getMessage()
        if doom.after_ms:  # meanwhile it goes on
            threading.Timer(doom.after_ms / 1_000, _carry_out, (doom, line)).start()
        else:
            _carry_out(doom, line)


def _carry_out(doom: Doom, line: str) -> None:
    # The descriptor of `sys.stderr`: `up` gives number 2 to libraries.
    os.write(sys.stderr.fileno(), f"{HIT}{line}\n".encode())
    for other in doom.others:
        with suppress(ProcessLookupError):
            os.kill(other, doom.number)
    me = psutil.Process()
    for process in me.children(recursive=True):
        with suppress(psutil.Error):  # gone meanwhile
            if doom.victim == "all" or (doom.victim == "jvm" and process.name() == "java"):
                process.send_signal(doom.number)
    if doom.victim in ("all", "python"):
        # This thread gets the signal, and halts here. Any thread may take a SIGSTOP to the process:
        # on a busy machine this one went on for some ms, past its point.
        signal.pthread_kill(threading.get_ident(), doom.number)


def main(file: str, command: str, *arguments: str) -> None:
    """Run the command."""
    handler = DoomHandler(Path(file))
    log = logging.getLogger("resolver")
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    if command == "resolve":
        from pipelines.resolve import main as resolve

        sys.exit(resolve(arguments))
    from resolver.cli import main as txresolver

    sys.argv[1:] = arguments
    txresolver()


if __name__ == "__main__":
    main(*sys.argv[1:])
