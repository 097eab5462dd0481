"""What a world keeps over an interruption: its resolver's home and settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Kept:
    """In which folder of the world the resolver's home is, and which settings were changed."""

    resolver: str = "first"
    settings: Mapping[str, int | str] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Kept:
        """Return what a file says; without one, what a world begins with."""
        return cls(**json.loads(file.read_text())) if file.exists() else cls()

    def write(self, file: Path) -> None:
        """Write it, whole or not at all."""
        new = file.with_suffix(".new")
        new.write_text(json.dumps(asdict(self)))
        new.replace(file)
