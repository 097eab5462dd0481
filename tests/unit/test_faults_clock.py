from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from tests.faults.clock import clock, preloaded, set_clock


def test_a_process_takes_its_time_from_the_file(tmp_path: Path) -> None:
    environment = os.environ | preloaded(tmp_path)
    for seconds in (0, 3_600, -7_200):
        set_clock(tmp_path, seconds)
        command = ["date", "+%s"]
        said = subprocess.run(command, capture_output=True, check=True, env=environment)
        assert abs(int(said.stdout) - time.time() - seconds) < 5
        assert clock(tmp_path) == seconds
