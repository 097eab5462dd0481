"""Reads and changes settings of topics."""

from __future__ import annotations

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from tests.support.patience import PATIENCE_SECONDS, wait_until


def alter(admin: AdminClient, topic: str, setting: str, value: str) -> None:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=PATIENCE_SECONDS)
    # The broker learns it from the controller.
    wait_until(lambda: config(admin, topic)[setting] == value)


def config(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(timeout=PATIENCE_SECONDS)
    return {name: entry.value for name, entry in entries.items()}
