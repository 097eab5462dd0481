"""The session on one machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pandas as pd
import pyspark
from pyspark.sql import SparkSession


def test_workers_run_our_python_and_need_not_compile_pyspark(spark: SparkSession) -> None:
    def look(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for _ in frames:
            yield pd.DataFrame({"python": [sys.prefix], "pyspark": [str(pyspark.__file__)]})

    (found,) = spark.range(1).mapInPandas(look, "python string, pyspark string").collect()
    assert found.python == sys.prefix
    assert ".zip" not in found.pyspark


def test_the_jvm_takes_spark_classes_from_the_archive_that_setup_makes(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    management = jvm.java.lang.management.ManagementFactory
    options = list(management.getRuntimeMXBean().getInputArguments())
    assert [option for option in options if option.startswith("-XX:SharedArchiveFile=")]
    # Not where it has found that the archive doesn't fit it.
    assert "sharing" in jvm.java.lang.System.getProperty("java.vm.info")
