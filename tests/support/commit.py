"""Which commit's code runs: what a measurement or a campaign found belongs to it."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit() -> str:
    """Return the commit of this code, with `-dirty` where anything was changed since."""
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        done = subprocess.run(
            asked, capture_output=True, text=True, check=True, timeout=60, cwd=Path(__file__).parent
        )
    except (OSError, subprocess.SubprocessError):
        return "no known commit"
    return done.stdout.strip()
