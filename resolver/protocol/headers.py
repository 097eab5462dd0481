"""The headers of a record that was read."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any

from confluent_kafka import Message

__all__ = ["headers_of"]

# Call `headers` through `methodcaller`. For a header's name that is not UTF-8, confluent_kafka
# returns a damaged list beside its error. An interpreter that has sped up a frequent direct call
# overlooks the error and crashes. `methodcaller` sees the error.
_headers: Callable[[Message], Any] = methodcaller("headers")


def headers_of(message: Message) -> list[tuple[str, bytes | None]] | None:
    """Return a record's headers; None where a header's name is not UTF-8."""
    try:
        return _headers(message) or []
    except (SystemError, UnicodeDecodeError):
        return None
