"""The demo's settings: shortened, so that a minute shows what otherwise takes half an hour."""

from __future__ import annotations

import os
from pathlib import Path

from ..settings import Settings

SHORTENED = {
    "transaction_timeout_ms": 1_500,
    "transaction_check_interval_ms": 1_500,
    "transaction_check_max": 3,
    "check_backoff_max_ms": 6_000,
    "land_trigger_interval_ms": 5_000,
}
#: What the demo's processes need of the machine's settings: no others may change what it shows.
_KEPT = ("TXRESOLVER_JAR_CACHE", "TXRESOLVER_BROKER_HEAP")


def write_settings(file: Path) -> Path:
    """Write the settings file that the resolver and the agent are given."""
    lines = [f"{name} = {value}" for name, value in SHORTENED.items()]
    file.write_text("\n".join(["# Written by txresolver demo.", *lines, ""]))
    return file


def clean_environment() -> dict[str, str]:
    """Return the environment without settings of another resolver."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TXRESOLVER_") or name in _KEPT
    }


def described() -> str:
    """Say what was shortened, and from what default."""
    defaults = Settings()
    return "\n".join(
        f"  {name:<30} {value:>6,}  (default {getattr(defaults, name):,})"
        for name, value in SHORTENED.items()
    )
