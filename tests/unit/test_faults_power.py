"""A loss of power: what was told to be on the disk stays, of the rest more or less is gone."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from tests.faults.power import lose_power, preloaded, synced_lengths

_WRITER = """
import os, sys
synced, cut, never = (open(name, "wb", buffering=0) for name in sys.argv[1:])
synced.write(b"s" * 100); os.fsync(synced.fileno()); synced.write(b"u" * 50)
cut.write(b"s" * 100); os.fdatasync(cut.fileno()); os.ftruncate(cut.fileno(), 40)
cut.seek(40); cut.write(b"u" * 60)
never.write(b"u" * 100)
"""


def test_what_was_synced_stays_and_the_rest_may_go(tmp_path: Path) -> None:
    environment = os.environ | preloaded(tmp_path)
    folder = tmp_path / "data" / "topic-0"
    folder.mkdir(parents=True)
    logs = [folder / f"{name}.log" for name in ("synced", "cut", "never")]
    found: dict[str, set[int]] = {log.stem: set() for log in logs}
    for seed in range(8):
        command = [sys.executable, "-c", _WRITER, *map(str, logs)]
        subprocess.run(command, check=True, env=environment)
        cuts = lose_power(tmp_path, random.Random(seed))  # noqa: S311
        lengths = {log: log.stat().st_size for log in logs}
        assert {one.log for one in cuts} == {
            log for log, length in lengths.items() if length < (150 if log is logs[0] else 100)
        }
        for log, length in lengths.items():
            found[log.stem].add(length)
            log.unlink()
        (tmp_path / "synced").unlink()
    assert min(found["synced"]) == 100 and max(found["synced"]) <= 150
    assert min(found["cut"]) == 40
    assert min(found["never"]) == 0
    assert all(len(lengths) > 1 for lengths in found.values())


def test_the_last_that_was_noted_of_a_file_counts() -> None:
    assert synced_lengths(["S 7 100", "S 8 5", "T 7 40", "T 8 9", "S 9 1", "S 9 3"]) == {
        7: 40,
        8: 5,
        9: 3,
    }
