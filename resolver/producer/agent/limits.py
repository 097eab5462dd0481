"""Limits of an agent: how much it does at once, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ...errors import SettingsError


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """RocketMQ's names and defaults; raises `SettingsError`.

    Attributes:
        check_thread_pool_min_size: Threads that stay when they are idle.
        check_thread_pool_max_size: Most threads that ask the listener.
        check_request_hold_max: Most checks that are held. At this number none are fetched.
        check_timeout_ms: Time in ms after which a listener has not answered.
    """

    check_thread_pool_min_size: int = 1
    check_thread_pool_max_size: int = 5
    check_request_hold_max: int = 2000
    check_timeout_ms: int = 10_000

    def __post_init__(self) -> None:
        for known in fields(self):
            check_whole(known.name, getattr(self, known.name), 1)
        least, most = self.check_thread_pool_min_size, self.check_thread_pool_max_size
        if least > most:
            raise SettingsError(
                f"check_thread_pool_min_size is {least} and check_thread_pool_max_size {most}",
                remedy="lower the first or raise the second",
            )


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise `SettingsError` unless an argument is a whole number of at least `least`."""
    if type(value) is not int or value < least:
        raise SettingsError(f"{name} is {value!r}", remedy=f"give a whole number from {least} on")
