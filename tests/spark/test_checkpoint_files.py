"""Small files of a checkpoint, by Spark's own means."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from resolver.resolve.checkpoint_files import CheckpointFiles


def test_what_is_not_there_is_nothing(spark: SparkSession, tmp_path: Path) -> None:
    files = CheckpointFiles(spark, tmp_path / "none")
    assert files.read("one") is None
    assert files.names("some") == []


def test_a_file_is_made_once(spark: SparkSession, tmp_path: Path) -> None:
    files = CheckpointFiles(spark, tmp_path.as_uri())
    files.create("some/one", "первый\n")
    with pytest.raises(FileExistsError):
        files.create("some/one", "second")
    assert files.read("some/one") == "первый\n"
    assert files.names("some") == ["one"]
