"""Loads the settings of a command: `--config F`, `--set name=value`, and its own options."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import SettingsError
from .model import Settings
from .options import refused_by_librdkafka

#: File that an operator edits in a checkout of the project; an installed package has none.
PROJECT_CONFIG = Path(__file__).parents[2] / "conf" / "resolver.toml"


def load_for_command(
    config: Path | None = None,
    assignments: Iterable[str] = (),
    options: Mapping[str, object] | None = None,
) -> Settings:
    """Load the settings of a command.

    `config` is the project's conf/resolver.toml unless given. `options` are settings for which the
    command has an option of its own (None: not given). They win over `--set`.
    """
    if config is None and PROJECT_CONFIG.is_file():
        config = _as_seen_from_here(PROJECT_CONFIG)
    overrides = parse_assignments(assignments)
    overrides |= {name: str(value) for name, value in (options or {}).items() if value is not None}
    settings = Settings.load(config, overrides)
    check_with_librdkafka(settings.kafka)
    return settings


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Parse the values of `--set`; raises `SettingsError` without quoting a value."""
    parsed: dict[str, str] = {}
    for assignment in assignments:
        before_equals, equals, value = assignment.partition("=")
        # Quote the name alone: behind it may be a secret whose = was forgotten or is another sign.
        # The secret may end in =.
        name, *more = re.split(r"[\s:]", before_equals.strip(), maxsplit=1)
        if not equals or not name or more:
            raise SettingsError(
                f"--set needs name=value (got {name!r})", remedy="give such as --set queues=4"
            )
        parsed[name] = value
    return parsed


def check_with_librdkafka(options: Mapping[str, str]) -> None:
    """Refuse options that librdkafka does not know or take, by making a client with them."""
    # Import here: settings are also read without a Kafka client, in Spark's Python workers.
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    silent = logging.Logger("options", logging.CRITICAL + 1)
    client: dict[str, Any] = {**options, "logger": silent}
    try:
        AdminClient(client)
    except KafkaException as error:
        reason = error.args[0].str()
        raise refused_by_librdkafka("[kafka] is refused by librdkafka", reason) from error


def _as_seen_from_here(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
