"""The topics to be written to: facts that are known for a while, then asked for again."""

from __future__ import annotations

import logging
import time
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import KafkaException

from ...kafka.clients import admin_client
from ...kafka.targets import FIRST_SECONDS, Target, ask, describe
from ...settings import Settings

logger = logging.getLogger(__name__)

_MAX_AGE_SECONDS = 60.0
_TIMEOUT_SECONDS = 30.0


class KnownTargets:
    """Topics by name; the cluster is asked again after a minute.

    A topic that we may not even describe counts as missing.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[str, Target] = {}
        self._asked_at = 0.0

    def look_up(self, topics: set[str]) -> dict[str, Target]:
        """Return those of the topics that exist."""
        if self._known and time.monotonic() - self._asked_at > _MAX_AGE_SECONDS:
            self._refresh()
        missing = topics - self._known.keys()
        if missing:
            give_up_at = time.monotonic() + _TIMEOUT_SECONDS
            described = ask(lambda: admin_client(self._settings), sorted(missing), give_up_at)
            self._known |= described.targets
        return {topic: self._known[topic] for topic in topics & self._known.keys()}

    def _refresh(self) -> None:
        """Ask again; the known facts stay valid while the broker that is asked is silent."""
        self._asked_at = time.monotonic()
        admin = admin_client(self._settings)
        try:
            self._known = describe(admin, sorted(self._known), FIRST_SECONDS).targets
        except (KafkaException, FutureTimeout) as error:
            logger.info("topics can't be described, and are taken to be as they were: %s", error)

    def fewest_in_sync(self, topic: str) -> int:
        """Return how many replicas in sync a topic needs; 1 if that is not known."""
        target = self._known.get(topic)  # once: another thread may forget all
        return target.fewest_in_sync if target else 1

    def forget(self) -> None:
        """Ask again next time."""
        self._known = {}
        self._asked_at = time.monotonic()
