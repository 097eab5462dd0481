"""The job `resolve`: joins half against op, delivers commits, checks and outcomes exactly once.

It runs in one session beside land, or by itself:

    spark-submit pipelines/resolve.py --bootstrap-servers H --checkpoint DIR
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.command_line import beating, query_parser, run_query
from resolver.resolve.job import Resolve
from resolver.settings import Settings
from resolver.spark.running import STOP_SECONDS, run_until_stopped
from resolver.spark.session import spark_session

if TYPE_CHECKING:
    from resolver.watch.jobs import JobsWatch


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job until SIGINT or SIGTERM stops it."""
    parser = query_parser("Resolve transactions, exactly once.")
    parser.add_argument("--checkpoint", required=True, help="folder of the job's checkpoint")
    parser.add_argument(
        "--rebuild", action="store_true", help="start a new checkpoint where outcomes exist"
    )
    parser.add_argument("--verbose", action="store_true", help="log each batch")
    options = parser.parse_args(arguments)
    level = logging.DEBUG if options.verbose else logging.INFO
    return run_query("resolve", options, _resolve, level)


def _resolve(options: argparse.Namespace, settings: Settings, watch: JobsWatch | None) -> None:
    job = Resolve(spark_session(settings, "txresolver resolve"), settings, options.checkpoint)
    job.start(options.rebuild)
    where = f"checkpoint={options.checkpoint}"
    print(f"resolving: {where}", flush=True)
    if watch is not None:
        watch.resolve(job)
    try:
        if run_until_stopped(beating(watch, job.wait), job.has_run, f"ready: {where}"):
            job.raise_failure_or_unexpected_stop()
    finally:
        if watch is not None:
            watch.rest()
        job.stop(STOP_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
