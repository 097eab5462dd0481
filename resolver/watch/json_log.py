"""Logs as JSON, a line each: `--log-format json`."""

from __future__ import annotations

import logging
from datetime import datetime, timezone
from enum import Enum

import orjson

#: Fields that a record may have beside its text, each named so at the place that logs it.
FIELDS = ("transaction_id", "group", "half")


class LogFormat(str, Enum):
    """The forms of the log."""

    text = "text"
    json = "json"


class JsonFormatter(logging.Formatter):
    """Makes an object of a record: time (UTC), level, logger, message, and the known fields."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in FIELDS:
            if (value := record.__dict__.get(name)) is not None:
                entry[name] = value
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        legal = {name: _legal(value) for name, value in entry.items()}
        return orjson.dumps(legal, option=orjson.OPT_NON_STR_KEYS).decode()


def json_line(message: str, logger: str = "resolver") -> str:
    """Return a line of the terminal as the log has it."""
    return JsonFormatter().format(
        logging.LogRecord(logger, logging.INFO, "", 0, message, None, None)
    )


def configure_log(log_format: str) -> None:
    """Let a job log to stderr: `text` or `json`."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    if log_format == LogFormat.json:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonFormatter())


def _legal(value: object) -> object:
    """Return a value without half a surrogate pair, for which the whole line would be lost."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _time(seconds: float) -> str:
    written = datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
    return written.replace("+00:00", "Z")
