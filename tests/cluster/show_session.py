"""Prints, as JSON, the session that a job would have and where its executors find the project."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator

from resolver.settings import load_for_command
from resolver.spark.session import spark_session


def found(_: Iterable[int]) -> Iterator[str]:
    import resolver

    yield os.path.abspath(resolver.__file__)


settings = load_for_command(None, sys.argv[1:])
spark = spark_session(settings, "show session")
asked = ("spark.ui.enabled", "spark.ui.retainedJobs", "spark.ui.retainedStages")
required = ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions", "spark.speculation")
shown = {key: spark.conf.get(key) for key in (*asked, *required)}
(shown["resolver"],) = spark.sparkContext.parallelize([0], 1).mapPartitions(found).collect()
print("session:", json.dumps(shown), flush=True)
