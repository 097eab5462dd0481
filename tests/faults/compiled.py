"""Libraries in C that a process is preloaded with."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from .fault_error import FaultError


def compiled(source: Path, library: Path, purpose: str) -> Path:
    """Compile a library and return it; `FaultError`, with the purpose, without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise FaultError(
            f"{purpose} takes a C compiler, and there is no cc: on Debian `apt-get "
            "install gcc libc6-dev`, or name the other faults with --only"
        )
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FaultError(f"{source} could not be compiled: {done.stderr.strip()}")
    return library
