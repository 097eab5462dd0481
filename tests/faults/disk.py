"""A disk so small that it can be filled: a tmpfs in a namespace of its own."""

from __future__ import annotations

import time
from pathlib import Path

from resolver.broker.guard import Guarded

from .fault_error import FaultError

_MOUNT = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && echo mounted && exec sleep infinity'
_SIZE = "400m"
_CHUNK = b"\0" * 65_536
_SECONDS = 10.0
_LOOK_SECONDS = 0.05


class SmallDisk:
    """A folder that is a disk for who is started with `prefix`; it lasts as long as `process`."""

    def __init__(self, folder: Path, log: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        log.write_text("")
        own = ["unshare", "--user", "--map-root-user", "--mount"]
        command = [*own, "sh", "-c", _MOUNT, "sh", _SIZE, str(folder)]
        self.process = Guarded(command, folder.parent, log, ())
        self._await_mounted(log)
        self.prefix = [
            *("nsenter", "--user", "--mount", "--preserve-credentials"),
            *("--target", str(self.process.pid)),
        ]
        # The folder as it is in there.
        self._filler = Path(f"/proc/{self.process.pid}/root{folder}/filler")

    def fill(self) -> None:
        """Leave no room; again, where some was made since."""
        try:
            with self._filler.open("ab", buffering=0) as file:
                while True:
                    file.write(_CHUNK)
        except OSError:
            return

    def make_room(self) -> None:
        """Undo `fill`."""
        self._filler.unlink()

    def end(self) -> None:
        """Unmount it, with all it holds."""
        self.process.stop(0)

    def _await_mounted(self, log: Path) -> None:
        until = time.monotonic() + _SECONDS
        while "mounted" not in log.read_text():
            if self.process.exit_status() is not None or time.monotonic() > until:
                raise FaultError(f"no small disk can be mounted: {log.read_text().strip()}")
            time.sleep(_LOOK_SECONDS)
