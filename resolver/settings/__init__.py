"""Settings: their definitions, their sources, and their table in docs/settings.md.

| layer, the later wins | example |
| --- | --- |
| default | `Settings()` |
| file | `transaction_timeout_ms = 6000` in conf/resolver.toml |
| environment | `TXRESOLVER_TRANSACTION_TIMEOUT_MS=6000`, `TXRESOLVER_KAFKA__SASL_PASSWORD=...` |
| command | `--set transaction_timeout_ms=6000`, `--set kafka.sasl.password=...` |
"""

from .command import load_for_command
from .definition import Definition
from .groups import Group
from .model import Settings, definitions
from .options import MASK, is_secret, masked

__all__ = [
    "MASK",
    "Definition",
    "Group",
    "Settings",
    "definitions",
    "is_secret",
    "load_for_command",
    "masked",
]
