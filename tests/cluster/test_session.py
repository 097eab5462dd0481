"""The session under spark-submit: who decides what, and what reaches the executors."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import LOGGING
from .standalone import Cluster

SHOW = Path(__file__).with_name("show_session.py")


def test_conf_of_spark_submit_wins_over_defaults_only(
    cluster: Cluster, node_python: Path, shipped: Path
) -> None:
    """The project's defaults < --conf < [spark] < what the queries need; its zip is shipped."""
    given = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.ui.retainedJobs": "11",
        "spark.ui.retainedStages": "12",
        "spark.sql.adaptive.enabled": "true",
        "spark.speculation": "true",
        "spark.sql.shuffle.partitions": "7",
    }
    conf = [part for key, value in given.items() for part in ("--conf", f"{key}={value}")]
    job = cluster.submit(
        "session",
        node_python,
        SHOW,
        ["queues=3", "spark.ui.retainedStages=22"],
        [*conf, "--py-files", str(shipped), "--driver-java-options", LOGGING],
    )
    shown = json.loads(job.until_said(r"session: (\{.*\})\n")[1])
    assert job.exit_code() == 0

    assert shown.pop("resolver").startswith(f"{cluster.folder}/work/app-")
    assert shown == {
        "spark.ui.enabled": "true",
        "spark.ui.retainedJobs": "11",
        "spark.ui.retainedStages": "22",
        "spark.sql.adaptive.enabled": "false",
        "spark.speculation": "false",
        "spark.sql.shuffle.partitions": "3",
    }
