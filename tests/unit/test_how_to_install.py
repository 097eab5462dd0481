"""Where an extra is missing, the command that adds it works from where this was installed."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_SECONDS

SCRIPT = "from resolver.errors import how_to_install; print(how_to_install('cli'))"
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("came_from", "source"),
    [
        (None, "txresolver[cli]"),
        (
            {"url": "file:///src/tx%20resolver", "dir_info": {"editable": True}},
            "/src/tx resolver[cli]",
        ),
        (
            {"url": "file:///w/txresolver-0.1.0-py3-none-any.whl", "archive_info": {}},
            "txresolver[cli] @ file:///w/txresolver-0.1.0-py3-none-any.whl",
        ),
        (
            {"url": "https://git/x", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "txresolver[cli] @ git+https://git/x@abc",
        ),
    ],
    ids=["an index", "a checkout", "a wheel", "a repository"],
)
def test_the_source_is_where_pip_took_it_from(
    came_from: dict[str, object] | None, source: str, tmp_path: Path
) -> None:
    noted = tmp_path / "txresolver-0.1.0.dist-info"
    noted.mkdir()
    (noted / "METADATA").write_text("Metadata-Version: 2.1\nName: txresolver\nVersion: 0.1.0\n")
    if came_from is not None:
        (noted / "direct_url.json").write_text(json.dumps(came_from))
    said = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    ).stdout
    assert shlex.split(said) == [sys.executable, "-m", "pip", "install", source]
