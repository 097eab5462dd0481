"""The job `land`: writes every record of the protocol into seven Delta tables, each once.

It runs in one session beside resolve, or by itself:

    spark-submit pipelines/land.py --bootstrap-servers H --tables DIR --checkpoint DIR
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from pipelines.command_line import beating, query_parser, run_query
from resolver.ledger.landing import land_query, wait_ended
from resolver.settings import Settings
from resolver.spark.running import STOP_SECONDS, finish_batch, has_run, run_until_stopped
from resolver.spark.session import spark_session

if TYPE_CHECKING:
    from resolver.watch.jobs import JobsWatch


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job until SIGINT or SIGTERM stops it."""
    parser = query_parser("Land the protocol's records in Delta tables.")
    parser.add_argument("--tables", required=True, help="folder of the tables")
    parser.add_argument("--checkpoint", required=True, help="folder of the query's checkpoint")
    parser.add_argument(
        "--available-now", action="store_true", help="land what is there now, then end"
    )
    return run_query("land", parser.parse_args(arguments), _land)


def _land(options: argparse.Namespace, settings: Settings, watch: JobsWatch | None) -> None:
    tables, checkpoint = options.tables, options.checkpoint
    spark = spark_session(settings, "txresolver land")
    query = land_query(spark, settings, tables, checkpoint, options.available_now)
    where = f"tables={tables} checkpoint={checkpoint}"
    print(f"landing: {where}", flush=True)
    if watch is not None:
        watch.land(query, tables)
    wait = beating(watch, partial(wait_ended, query, checkpoint))
    run_until_stopped(wait, partial(has_run, query), f"ready: {where}")
    if watch is not None:
        watch.rest()
    finish_batch(query, STOP_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
