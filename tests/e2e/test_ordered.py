"""The order of keys, with kills of the resolver. The long form is `scripts/faults --ordered`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.patience import WHOLE_RUN_SECONDS
from tests.support.time_limit import takes


@takes(1_500, "5,000 commits, two kills and the starts after them, an audit")
def test_each_key_keeps_its_order_through_kills_of_the_resolver(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults", f"--home={tmp_path / 'home'}"]
    asked = ["--ordered=5000", "--kills=2", "--rate=200"]
    ended = subprocess.run(
        [*command, *asked],
        capture_output=True,
        text=True,
        timeout=WHOLE_RUN_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("exit code 137") == 2, ended.stdout
    said = re.search(r"([0-9,]+) commits of 1,000 keys stand in their order", ended.stdout)
    assert said is not None and int(said[1].replace(",", "")) > 2_500, ended.stdout
