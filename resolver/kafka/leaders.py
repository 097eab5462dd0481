"""The leaders that answer: which is later, and which was replaced without knowing it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from .background_client import QueuePartition
from .offset_answers import OffsetAnswer

logger = logging.getLogger(__name__)

#: Time in seconds for which a leader is not believed that seems to have been replaced.
_FORMER_SECONDS = 120.0


class Leaders:
    """The last leader of each partition, by its answers.

    A leader that was cut off may end before records that were read from its successor. The
    partition seems to have lost them. For two minutes such a leader is not believed.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        # The last leader's epoch, and since when a former leader answers.
        self._epochs: dict[QueuePartition, int] = {}
        self._former_since: dict[QueuePartition, float] = {}

    def has_later(self, answers: Mapping[QueuePartition, OffsetAnswer]) -> bool:
        """Whether one of these leaders is later than the last one known."""
        return any(
            answer.epoch > self._epochs.get(partition, answer.epoch)
            for partition, answer in answers.items()
        )

    def is_former(self, partition: QueuePartition, answer: OffsetAnswer, begin: int) -> bool:
        """Whether a leader answers that has been replaced; otherwise it is noted as the last one.

        The leader's epoch shows it. After a start no epoch is known. Then an end before `begin`,
        the plan's start, shows it.

        A topic that was deleted and made again has a lesser epoch too, and keeps it.
        """
        last = self._epochs.get(partition)
        # Some answers have no epoch: it is -1 then.
        is_former = answer.offset < begin if last is None else 0 <= answer.epoch < last
        now = self._monotonic()
        if is_former:
            if last is None and partition not in self._former_since:
                _warn_of_early_end(partition, answer, begin)
            if now - self._former_since.setdefault(partition, now) < _FORMER_SECONDS:
                return True
        if self._former_since.pop(partition, None) is not None and last is None and not is_former:
            topic, queue = partition
            logger.warning("another leader of partition %s of %s was found", queue, topic)
        self._epochs[partition] = (
            answer.epoch if is_former or last is None else max(answer.epoch, last)
        )
        return False


def _warn_of_early_end(partition: QueuePartition, answer: OffsetAnswer, begin: int) -> None:
    topic, queue = partition
    logger.warning(
        "partition %s of %s ends at %d, and was read up to %d: its leader may have been cut "
        "off. New clients look for another leader for %.0f s, then the resolver ends",
        queue, topic, answer.offset, begin, _FORMER_SECONDS,
    )  # fmt: skip
