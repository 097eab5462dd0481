"""What may be spoilt: files of a home, at any depth, but those that only Hadoop looks at."""

from __future__ import annotations

from pathlib import Path

from resolver.faults.damage import files
from resolver.home import Home


def test_any_file_below_a_folder_is_found(tmp_path: Path) -> None:
    state = tmp_path / "checkpoints" / "resolve" / "spark" / "state"
    state.mkdir(parents=True)
    for name in ("1.zip", ".1.zip.crc"):
        (state / name).touch()
    (tmp_path / "checkpoints" / "resolve" / "identity").touch()
    found = files("checkpoints/resolve/**/*")(Home(tmp_path))
    assert [file.name for file in found] == ["identity", "1.zip"]
