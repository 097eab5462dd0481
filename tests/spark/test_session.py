"""The session on one machine."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession


def test_workers_run_our_python_and_need_not_compile_pyspark(spark: SparkSession) -> None:
    def look(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import sys

        import pyspark

        for _ in frames:
            yield pd.DataFrame({"python": [sys.prefix], "pyspark": [str(pyspark.__file__)]})

    import sys

    (found,) = spark.range(1).mapInPandas(look, "python string, pyspark string").collect()
    assert found.python == sys.prefix
    assert ".zip" not in found.pyspark
