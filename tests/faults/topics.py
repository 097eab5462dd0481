"""The topics of a world: the protocol's, and those that its load's messages are for."""

from __future__ import annotations

from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from resolver.kafka.clients import admin_client
from resolver.kafka.topic_admin import await_topics, existing_topics
from resolver.kafka.topics import ensure_topics
from resolver.settings import Settings

from .load import FORBIDDEN, GROUP, PARTITIONS, SMALL, SMALL_BYTES, TOPICS

_CONFIGS: dict[str, dict[str, str]] = {
    **{topic: {} for topic in (*TOPICS, FORBIDDEN)},
    SMALL: {"max.message.bytes": str(SMALL_BYTES)},
}


def make_topics(settings: Settings) -> None:
    """Make those that are not there yet; return when they are."""
    admin = admin_client(settings)
    ensure_topics(admin, settings, [GROUP])
    missing = sorted(_CONFIGS.keys() - existing_topics(admin))
    if missing:
        new = [
            NewTopic(topic, PARTITIONS, settings.replication_factor, config=_CONFIGS[topic])
            for topic in missing
        ]
        for made in admin.create_topics(new).values():
            made.result(30)
        await_topics(admin, missing)
