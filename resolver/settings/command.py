"""Settings as the commands load them: `--config F`, `--set name=value`, and their own options."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import SettingsError
from .model import Settings

#: What an operator edits, in a checkout of the project; an installed package has none.
PROJECT_CONFIG = Path(__file__).parents[2] / "conf" / "resolver.toml"


def load_for_command(
    config: Path | None = None,
    assignments: Iterable[str] = (),
    options: Mapping[str, object] | None = None,
) -> Settings:
    """Load the settings of a command.

    `config` is the project's conf/resolver.toml unless given; `options` are settings that the
    command has an option of its own for (None: not given), and win over `--set`.
    """
    if config is None and PROJECT_CONFIG.is_file():
        config = _as_seen_from_here(PROJECT_CONFIG)
    overrides = parse_assignments(assignments)
    overrides |= {name: str(value) for name, value in (options or {}).items() if value is not None}
    settings = Settings.load(config, overrides)
    check_with_librdkafka(settings.kafka)
    return settings


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Parse what `--set` was given; raises `SettingsError` without quoting a value."""
    parsed: dict[str, str] = {}
    for assignment in assignments:
        left, equals, value = assignment.partition("=")
        # Behind a name may be a secret whose = was forgotten or is another sign; it may end in =.
        name, *more = re.split(r"[\s:]", left.strip(), maxsplit=1)
        if not equals or not name or more:
            raise SettingsError(f"--set needs name=value, such as --set queues=4 (got {name!r})")
        parsed[name] = value
    return parsed


def check_with_librdkafka(options: Mapping[str, str]) -> None:
    """Refuse options that librdkafka does not know or take, by making a client of them."""
    # Imported here: settings are also read where no Kafka client is, in Spark's Python workers.
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    silent = logging.Logger("options", logging.CRITICAL + 1)
    client: dict[str, Any] = {**options, "logger": silent}
    try:
        AdminClient(client)
    except KafkaException as error:
        raise SettingsError(
            f"[kafka] is refused by librdkafka: {error.args[0].str()}; its options are listed in "
            "its CONFIGURATION.md"
        ) from error


def _as_seen_from_here(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
