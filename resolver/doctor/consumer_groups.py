"""Questions about consumer groups."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConsumerGroupDescription,
)

_TIMEOUT_SECONDS = 10.0
#: Seconds in which a question is asked again: the first one of all makes a cluster create its topic
#: of groups, and each broker then loads its part of the topic.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 30.0, 0.2
_AGAIN = (
    KafkaError._TIMED_OUT,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


def described_groups(
    admin: AdminClient, names: Sequence[str]
) -> Iterator[tuple[str, ConsumerGroupDescription | None]]:
    """Yield each group by its name; None for a group that this login may not describe."""
    for name in names:
        yield name, _described(admin, name)


def _described(admin: AdminClient, name: str) -> ConsumerGroupDescription | None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        [asked] = admin.describe_consumer_groups(
            [name], include_authorized_operations=True, request_timeout=_TIMEOUT_SECONDS
        ).values()
        try:
            return cast(ConsumerGroupDescription, asked.result(2 * _TIMEOUT_SECONDS))
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
                return None
            if code not in _AGAIN or time.monotonic() > until:
                raise
        time.sleep(_PAUSE_SECONDS)
