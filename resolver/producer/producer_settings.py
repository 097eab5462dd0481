"""Arguments that say how a producer works, checked."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import SettingsError
from .agent.limits import check_whole
from .end_hooks import EndHook


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """Each field has the name and the unit of the producer's argument.

    An illegal value raises `SettingsError`.
    """

    send_timeout_ms: int
    check_real_topics: bool
    real_topic_cache_ms: int
    op_max_bytes: int
    op_linger_ms: int
    end_hooks: tuple[EndHook, ...]
    fast: bool
    fast_linger_ms: int
    fast_immunity_ms: int

    def __post_init__(self) -> None:
        check_whole("send_timeout_ms", self.send_timeout_ms, 1)
        check_whole("real_topic_cache_ms", self.real_topic_cache_ms, 0)
        check_whole("op_max_bytes", self.op_max_bytes, 1)
        check_whole("op_linger_ms", self.op_linger_ms, 0)
        check_whole("fast_linger_ms", self.fast_linger_ms, 0)
        check_whole("fast_immunity_ms", self.fast_immunity_ms, 1)
        if not isinstance(self.fast, bool):
            raise SettingsError(f"fast is {self.fast!r}", remedy="give True or False")
