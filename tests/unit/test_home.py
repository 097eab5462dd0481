from __future__ import annotations

from pathlib import Path

from resolver.up.home import Home


def test_what_spark_left_of_a_run_that_was_killed_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "spark" / "local" / "userFiles"
    left.mkdir(parents=True)
    (left / "spark.jar").touch()
    with Home(tmp_path) as home:
        assert not (tmp_path / "spark").exists()
        home.resolve_checkpoint.mkdir(parents=True)
    with Home(tmp_path) as home:
        assert home.resolve_checkpoint.exists()
