"""A simulated leader of the lane that was cut off: the lane's clients act as if they asked it."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer


class CutOff:
    """A leader of the lane that was cut off: it takes no record, and shows none from `end` on.

    The next `producers` and `consumers` that are made ask it, and stay with it. One of them
    `has_read` once it was told that end.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.end = 0
        self.producers = 0
        self.consumers = 0
        self.has_read = False
        leader = self

        class Writing(Producer):
            def __init__(self, *options: Any) -> None:
                super().__init__(*options)
                leader.producers -= 1
                self._is_cut_off = leader.producers >= 0

            def produce(self, *record: Any, **more: Any) -> None:
                if not self._is_cut_off:
                    super().produce(*record, **more)

        class Reading(Consumer):
            def __init__(self, *options: Any) -> None:
                super().__init__(*options)
                leader.consumers -= 1
                self._is_cut_off = leader.consumers >= 0

            def poll(self, *seconds: float) -> Message | None:
                message = super().poll(*seconds)
                is_shown = message is not None and (message.offset() or 0) < leader.end
                return message if is_shown or not self._is_cut_off else None

            def get_watermark_offsets(self, *asked: Any, **options: Any) -> tuple[int, int]:
                low, end = super().get_watermark_offsets(*asked, **options)
                if not self._is_cut_off or end <= leader.end:
                    return low, end
                leader.has_read |= "cached" in options
                return low, leader.end

        monkeypatch.setattr("resolver.resolve.delivery.lane_log.Producer", Writing)
        monkeypatch.setattr("resolver.resolve.delivery.lane_log.Consumer", Reading)
