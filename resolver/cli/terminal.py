"""The terminal of a command: it has our own lines; what libraries write goes to a file."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from ..broker.jars import cache_folder
from ..spark.output import STDERR
from ..up.home import Home
from ..watch.json_log import JsonFormatter, LogFormat

_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_OURS = "resolver"
#: Logger of librdkafka's lines, where a client gives them to Python.
_LIBRDKAFKA = "resolver.librdkafka"
#: Size in bytes above which the file of the libraries is moved away; a second one is kept.
_MOST_BYTES = 10_000_000
#: Time in seconds between two looks at its size.
_LOOK_SECONDS = 60.0


@contextmanager
def terminal(
    home: Path, level: int = logging.WARNING, log_format: LogFormat = LogFormat.text
) -> Iterator[None]:
    """Log to the terminal, and let libraries write to `logs/libraries.log` of the home.

    librdkafka repeats a raw line for each attempt to connect, and Spark warns of what is as it
    should be: we say what it means, once. A command beside no home writes into the user's cache
    folder.
    """
    ours = logging.getLogger(_OURS)
    before = ours.level
    with _library_log(home) as log, _stderr_for_us(log.fileno()), _librdkafka_to(log):
        log_to_terminal(level, log_format)
        try:
            yield
        finally:
            ours.setLevel(before)


def log_to_terminal(level: int, log_format: LogFormat = LogFormat.text) -> None:
    """Let our own loggers speak, on stderr."""
    logging.basicConfig(format=_FORMAT, level=logging.WARNING)
    logging.getLogger(_OURS).setLevel(level)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_is_ours_to_tell)
        if log_format is LogFormat.json:
            handler.setFormatter(JsonFormatter())


@contextmanager
def _library_log(home: Path) -> Iterator[TextIO]:
    """Open the file, and keep it small for as long as the block lasts."""
    log, ended = _open_library_log(home), threading.Event()

    def keep_small() -> None:
        while not ended.wait(_LOOK_SECONDS):
            _move_if_large(Path(log.name))

    _move_if_large(Path(log.name))
    threading.Thread(target=keep_small, name="txresolver-library-log", daemon=True).start()
    try:
        yield log
    finally:
        ended.set()


def _open_library_log(home: Path) -> TextIO:
    own = Home(home).library_log
    cached = cache_folder().parent / "logs" / own.name
    for file in ([own] if os.path.isdir(home) else []) + [cached]:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            return file.open("a", buffering=1)
    return open(os.devnull, "a")


def _move_if_large(file: Path) -> None:
    """Move the content to a second file, over what is there; all writers append and go on."""
    with suppress(OSError):  # the log is no reason to fail
        if file.is_file() and file.stat().st_size > _MOST_BYTES:
            shutil.copyfile(file, f"{file}.1")
            os.truncate(file, 0)


@contextmanager
def _stderr_for_us(descriptor: int) -> Iterator[None]:
    """Let C libraries write to a descriptor, while Python's stderr goes on to the terminal."""
    before = sys.stderr
    before.flush()
    kept = os.dup(STDERR)
    os.dup2(descriptor, STDERR)
    # Leave this stream open at the end: a thread that ends later may still log to it.
    sys.stderr = os.fdopen(kept, "w", buffering=1, closefd=False)
    try:
        yield
    finally:
        sys.stderr = before
        os.dup2(kept, STDERR)


@contextmanager
def _librdkafka_to(log: TextIO) -> Iterator[None]:
    """Send the lines that librdkafka gives to Python's logging to the file too."""
    handler = logging.StreamHandler(log)
    handler.setFormatter(logging.Formatter(_FORMAT))
    librdkafka = logging.getLogger(_LIBRDKAFKA)
    librdkafka.propagate = False
    librdkafka.addHandler(handler)
    try:
        yield
    finally:
        librdkafka.removeHandler(handler)
        librdkafka.propagate = True


def _is_ours_to_tell(record: logging.LogRecord) -> bool:
    """Whether a record is not from py4j, which logs by the root logger too.

    Spark raises the error of a batch that fails or is cut short by a stop. We say what it means.
    """
    return "py4j" not in Path(record.pathname).parts
