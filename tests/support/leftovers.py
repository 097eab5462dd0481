"""What a command under test may leave behind: processes."""

from __future__ import annotations

from pathlib import Path

import psutil


def processes_in(home: Path, of: str = "") -> list[psutil.Process]:
    """Return the processes that work in a folder, or were told of it; `of`: of which program."""
    processes = []
    for process in psutil.process_iter():
        try:
            command_line = process.cmdline()
            if any(str(home) in text for text in [process.cwd(), *command_line]) and of in " ".join(
                command_line
            ):
                processes.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return processes
