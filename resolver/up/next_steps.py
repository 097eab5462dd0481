"""What a user can do with a resolver that has just become ready."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from ..settings import Settings
from .home import DEFAULT_HOME, Home


def next_steps(path: Path, home: Home, settings: Settings) -> Iterator[str]:
    """Return the lines: where producers connect, where the tables are, commands to go on with."""
    servers = settings.bootstrap_servers
    home_option = "" if path == DEFAULT_HOME else f" --home {shlex.quote(str(path))}"
    steps = {
        "a producer's address": f"export TXRESOLVER_BOOTSTRAP_SERVERS={servers}",
        "make a real topic": f"txresolver topics create --topic orders.placed{home_option}",
        "read its messages": f"txresolver kafka{home_option} console-consumer "
        "--topic orders.placed --from-beginning --isolation-level read_committed",
        "what became of it": f"txresolver list{home_option}",
        "the Delta tables": str(home.tables),
        "recompute them all": f"txresolver audit{home_option}",
        "stop": "Ctrl-C; the next start goes on where this one ends",
    }
    width = max(map(len, steps))
    return (f"  {name:<{width}}  {step}" for name, step in steps.items())
