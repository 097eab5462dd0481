"""The audit of a world, by the command that an operator would use."""

from __future__ import annotations

import subprocess
import sys

from ..demo.shortened import clean_environment
from .results import Audit
from .world import World

_SECONDS = 600.0


def audit(world: World, name: str) -> Audit:
    """Audit the tables and the real topics of a world; a violation is exit code 1."""
    command = ["audit", "--topics", "--home", str(world.resolver_home), *world.sets]
    prefix = world.disk.prefix if world.disk is not None else []
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "resolver", *command],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        env=clean_environment(),
        start_new_session=True,  # Ctrl-C is for the campaign: half an audit finds nothing
        check=False,
    )
    return Audit(name, done.returncode, (done.stdout + done.stderr).strip())
