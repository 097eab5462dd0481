"""Checks of a message before anything is stored; each refusal names the remedy."""

from __future__ import annotations

from typing import Any

from ..errors import MessageRefused, MessageTooLarge
from ..protocol import Half, legal_topic, record_bytes
from ..protocol.names import FAST, HALF_HEADERS, MAX_PARTITION, OUTPUT_HEADERS
from ..protocol.record import headers_bytes, short
from .message import Message

__all__ = ["check_message", "check_size"]

#: RocketMQ's headers of a delayed message. Transactional messages have no delay, here as in
#: RocketMQ.
DELAY_HEADERS = frozenset(
    {
        "DELAY",
        "TIMER_DELAY_SEC",
        "TIMER_DELAY_MS",
        "TIMER_DELAY_LEVEL",
        "TIMER_DELIVER_MS",
        "__STARTDELIVERTIME",
    }
)
#: Bytes for the record batch and for the headers that a commit adds to the half.
MARGIN_BYTES = 512
_MAX_IMMUNITY_SECONDS = 2**31 - 1


def check_message(message: Message, prefix: str) -> None:
    """Raise `MessageRefused` unless `message` can become a half, and later its commit."""
    if not isinstance(message, Message):
        raise MessageRefused(f"got {short(message)}", remedy="send a resolver.Message")
    _check_topic(message.topic, prefix)
    _check_bytes("body", message.body)
    _check_bytes("key", message.key)
    _check_bytes("ordering_key", message.ordering_key)
    _check_headers(message.headers)
    _check_whole("real_qid", message.real_qid, 0, MAX_PARTITION, "for any partition")
    _check_whole(
        "check_immunity_seconds",
        message.check_immunity_seconds,
        1,
        _MAX_IMMUNITY_SECONDS,
        "for the resolver's transaction_timeout_ms",
    )


def check_size(half: Half, headers: list[tuple[str, bytes | None]], max_bytes: int) -> None:
    """Raise `MessageTooLarge` unless the half with all `headers` surely fits into `max_bytes`."""
    size = record_bytes(half.key, half.body, headers) + MARGIN_BYTES
    if half.fast_id is not None:  # the commit has none, and in the half the margin has room for it
        size -= headers_bytes([(FAST, half.fast_id.encode())])
    if size > max_bytes:
        raise MessageTooLarge(
            f"the message for {half.topic} takes {size} bytes with its headers and a margin; at "
            f"most {max_bytes} fit",
            remedy="send less (a reference to the content), or raise max.message.bytes of the "
            "half topic and of the message's own topic",
        )


def _check_topic(topic: Any, prefix: str) -> None:
    if not isinstance(topic, str) or not legal_topic(topic):
        raise MessageRefused(
            f"topic is {short(topic)}",
            remedy="give 1 to 249 of a-z A-Z 0-9 . _ - (not '.' or '..')",
        )
    if topic.startswith(prefix):
        raise MessageRefused(
            f"topic is {topic!r}; topics under the prefix {prefix!r} are the protocol's own",
            remedy="choose another",
        )


def _check_bytes(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, bytes):
        raise MessageRefused(
            f"{name} is {short(value)}", remedy=f"give bytes or None{_encoded(value)}"
        )


def _check_headers(headers: Any) -> None:
    if not isinstance(headers, (list, tuple)):  # an iterator would be used up by the check
        raise MessageRefused(
            f"headers is a {type(headers).__name__}",
            remedy="give a list or tuple of pairs (name, bytes or None)",
        )
    for header in headers:
        _check_header(header)


def _check_header(header: Any) -> None:
    if not isinstance(header, tuple) or len(header) != 2:
        raise MessageRefused(
            f"a header is {short(header)}", remedy="give pairs (name, bytes or None)"
        )
    name, value = header
    # Refuse NUL: librdkafka ends a name there, and another name would arrive.
    if not isinstance(name, str) or not _is_utf8(name) or "\0" in name:
        raise MessageRefused(f"a header's name is {short(name)}", remedy="give text without NUL")
    if name in HALF_HEADERS or name in OUTPUT_HEADERS:
        raise MessageRefused(f"header {name} is the protocol's own", remedy="name yours otherwise")
    if name in DELAY_HEADERS:
        raise MessageRefused(
            f"header {name} asks for a delay, which a transactional message can't have: it is "
            "visible when it is committed",
            remedy="remove it; let the consumer wait, or commit later",
        )
    _check_bytes(f"header {name}", value)


def _check_whole(name: str, value: Any, least: int, most: int, none_is: str) -> None:
    if value is not None and (type(value) is not int or not least <= value <= most):
        raise MessageRefused(
            f"{name} is {short(value)}",
            remedy=f"give a whole number from {least} to {most}, or None {none_is}",
        )


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _encoded(value: Any) -> str:
    return ": call .encode()" if isinstance(value, str) else ""
