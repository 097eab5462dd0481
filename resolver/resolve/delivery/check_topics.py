"""Check topics of new groups: a group's first half makes the topic in which it is asked."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Set
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import KafkaException

from ...errors import TxResolverError
from ...kafka.clients import admin_client
from ...kafka.topics import ensure_topics
from ...protocol import Names
from ...settings import Settings
from .known_targets import KnownTargets

logger = logging.getLogger(__name__)

#: Most groups whose check topics are made for a batch: meanwhile nothing is delivered.
_NEW_GROUPS = 100
#: Seconds after which a failure to make topics counts as a time-out. Then the groups are not split
#: to find the culprit.
_SOON_SECONDS = 5.0


class CheckTopics:
    """Makes the check topics that a batch's checks go to, until delivery is `closing`."""

    def __init__(self, settings: Settings, targets: KnownTargets, closing: threading.Event) -> None:
        self._settings = settings
        self._names = Names(settings.topic_prefix)
        self._targets = targets
        self._closing = closing

    def make_missing(self, topics: Set[str]) -> None:
        """Make the check topics among a batch's topics that are missing, up to `_NEW_GROUPS`.

        Checks of further groups, and of a group whose topic can't be made, are left out. Their
        topics are tried again with the next checks.
        """
        checked = {topic: self._names.checked_group(topic) for topic in topics}
        groups = {topic: group for topic, group in checked.items() if group is not None}
        if not groups or not self._settings.create_check_topics:
            return
        missing = sorted(groups.keys() - self._targets.look_up(set(groups)).keys())[:_NEW_GROUPS]
        if missing:
            self._meet([groups[topic] for topic in missing])
            self._targets.forget()

    def _meet(self, groups: list[str]) -> None:
        """Make check topics at once. If one can't be made, all fail: then split the groups in two.

        After a failure that took long the groups are not split: each part would wait as long again.
        """
        if self._closing.is_set():
            return
        logger.info("making the check topic of group %s", ", ".join(groups))
        begun = time.monotonic()
        try:
            ensure_topics(admin_client(self._settings), self._settings, groups)
        except (TxResolverError, KafkaException, FutureTimeout) as error:
            if len(groups) > 1 and time.monotonic() - begun < _SOON_SECONDS:
                middle = len(groups) // 2
                self._meet(groups[:middle])
                self._meet(groups[middle:])
                return
            logger.warning(
                "the check topic of group %s can't be made: %s. While it is not there its checks "
                "are left out, and halves that nobody ended are discarded after %d hours",
                ", ".join(groups),
                repr(error) if isinstance(error, FutureTimeout) else error,
                self._settings.file_reserved_hours,
            )
