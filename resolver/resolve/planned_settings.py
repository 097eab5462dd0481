"""The settings that a batch was planned with: a replay after a crash must decide the same."""

from __future__ import annotations

from dataclasses import dataclass

from ..settings import Settings
from ..settings.groups import limits
from .step import StepSettings

_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class PlannedSettings:
    """Settings, each with the first batch that they hold for, in the order in which they came.

    The batch's id picks the settings; a clock may step back. A batch that was planned before a
    restart is replayed with the settings of that time. If two entries have the same first batch,
    the later entry holds: the batch had not been planned when that entry came.
    """

    entries: tuple[tuple[int, StepSettings], ...]

    def for_batch(self, batch: int) -> StepSettings:
        """Return the settings of this batch; the first settings for a batch before all entries."""
        held = [settings for first, settings in self.entries if first <= batch]
        return held[-1] if held else self.entries[0][1]

    def then(self, batch: int, settings: StepSettings) -> PlannedSettings:
        """Let other settings hold from this batch on."""
        if self.entries and self.entries[-1][1] == settings:
            return self
        return PlannedSettings((*self.entries, (batch, settings)))

    @property
    def topic_prefix(self) -> str:
        """The topic prefix, the same for a checkpoint's life."""
        return self.entries[-1][1].topic_prefix


def step_settings(settings: Settings) -> StepSettings:
    """Return the settings of a queue's step; the queues share a batch's limits equally."""
    return StepSettings(
        topic_prefix=settings.topic_prefix,
        transaction_timeout_ms=settings.transaction_timeout_ms,
        transaction_check_interval_ms=settings.transaction_check_interval_ms,
        transaction_check_max=settings.transaction_check_max,
        file_reserved_ms=settings.file_reserved_hours * _HOUR_MS,
        count_unanswered_checks=settings.count_unanswered_checks,
        check_backoff_max_ms=settings.check_backoff_max_ms,
        reject_transaction_message=settings.reject_transaction_message,
        max_checks=max(1, settings.max_checks_per_batch // settings.queues),
        max_output_bytes=max(1, settings.max_bytes_per_trigger // settings.queues),
        max_ops=max(1, settings.max_offsets_per_trigger // settings.queues),
        group_topics=limits(settings.groups),
    )
