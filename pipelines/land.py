"""The job `land`: writes every record of the protocol into seven Delta tables, each once.

It runs in one session beside resolve, or by itself:

    spark-submit pipelines/land.py --bootstrap-servers H --tables DIR --checkpoint DIR
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from resolver.errors import TxResolverError
from resolver.kafka.reach import await_broker
from resolver.ledger.landing import land_query, wait_ended
from resolver.settings import Settings, load_for_command
from resolver.spark.running import STOP_SECONDS, finish_batch, has_run, run_until_stopped
from resolver.spark.session import spark_session
from resolver.watch.json_log import configure_log
from resolver.watch.watching import watching

if TYPE_CHECKING:
    from resolver.watch.jobs import JobsWatch


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Land the protocol's records in Delta tables.")
    parser.add_argument("--config", type=Path, help="settings file (TOML)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--bootstrap-servers", help="Kafka's brokers, host:port")
    parser.add_argument("--tables", required=True, help="folder of the tables")
    parser.add_argument("--checkpoint", required=True, help="folder of the query's checkpoint")
    parser.add_argument(
        "--available-now", action="store_true", help="land what is there now, then end"
    )
    parser.add_argument(
        "--log-format", choices=["text", "json"], default="text", help="lines for people, or JSON"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job until SIGINT or SIGTERM stops it."""
    given = _arguments(arguments)
    configure_log(given.log_format)
    logging.getLogger("resolver").setLevel(logging.INFO)
    try:
        options = {"bootstrap_servers": given.bootstrap_servers}
        settings = load_for_command(given.config, given.set, options)
        await_broker(settings)
        with watching(settings, "land") as watch:
            _run(given, settings, watch)
    except TxResolverError as error:
        print(f"land: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _run(given: argparse.Namespace, settings: Settings, watch: JobsWatch | None) -> None:
    spark = spark_session(settings, "txresolver land")
    query = land_query(spark, settings, given.tables, given.checkpoint, given.available_now)
    print(f"landing: tables={given.tables} checkpoint={given.checkpoint}", flush=True)
    if watch is not None:
        watch.land(query, given.tables)

    def ended(seconds: float) -> bool:
        if watch is not None:
            watch.health.beat()
        return wait_ended(query, given.checkpoint, seconds)

    where = f"tables={given.tables} checkpoint={given.checkpoint}"
    run_until_stopped(ended, lambda: has_run(query), f"ready: {where}")
    if watch is not None:
        watch.rest()
    finish_batch(query, STOP_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
