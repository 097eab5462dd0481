"""The session on one machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pandas as pd
import psutil
import pyspark
from pyspark.sql import SparkSession

from resolver.spark.class_archive import archive_options
from tests.support.patience import PATIENCE_SECONDS

#: As while a JVM that was killed goes: it is there, and answers nobody.
DEAF = """
import psutil
from resolver.spark.shutdown import end_spark
from resolver.spark.session import spark_session
from resolver.settings import Settings

spark = spark_session(Settings(bootstrap_servers="127.0.0.1:1"), "deaf")
gateway = spark.sparkContext._gateway
gateway.shutdown()
assert gateway.proc.poll() is None
end_spark()
assert psutil.Process().children(recursive=True) == []
"""


def test_workers_run_our_python_and_need_not_compile_pyspark(spark: SparkSession) -> None:
    def look(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for _ in frames:
            yield pd.DataFrame({"python": [sys.prefix], "pyspark": [str(pyspark.__file__)]})

    (found,) = spark.range(1).mapInPandas(look, "python string, pyspark string").collect()
    assert found.python == sys.prefix
    assert ".zip" not in found.pyspark


def test_the_jvm_takes_spark_classes_from_the_archive_that_setup_makes(spark: SparkSession) -> None:
    gateway = cast(Any, spark.sparkContext)._gateway
    assert archive_options(), "there is no archive: scripts/setup says why"
    # One that doesn't fit is not kept mapped.
    mapped = [Path(file.path).name for file in psutil.Process(gateway.proc.pid).memory_maps()]
    assert [name for name in mapped if name.startswith("spark-")]


def test_a_jvm_that_answers_no_more_is_ended_too() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEAF],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
