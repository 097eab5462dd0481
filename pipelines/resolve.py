"""The job `resolve`: joins half against op, delivers commits, checks and outcomes exactly once.

It runs in one session beside land, or by itself:

    spark-submit pipelines/resolve.py --bootstrap-servers H --checkpoint DIR
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
from resolver.resolve.job import Resolve
from resolver.settings import Settings, load_for_command
from resolver.spark.running import STOP_SECONDS, run_until_stopped
from resolver.spark.session import spark_session
from resolver.watch.json_log import configure_log
from resolver.watch.watching import watching

if TYPE_CHECKING:
    from resolver.watch.jobs import JobsWatch


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Resolve transactions, exactly once.")
    parser.add_argument("--config", type=Path, help="settings file (TOML)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--bootstrap-servers", help="Kafka's brokers, host:port")
    parser.add_argument("--checkpoint", required=True, help="folder of the job's checkpoint")
    parser.add_argument(
        "--rebuild", action="store_true", help="start a new checkpoint where outcomes exist"
    )
    parser.add_argument("--verbose", action="store_true", help="log each batch")
    parser.add_argument(
        "--log-format", choices=["text", "json"], default="text", help="lines for people, or JSON"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job until SIGINT or SIGTERM stops it."""
    given = _arguments(arguments)
    configure_log(given.log_format)
    logging.getLogger("resolver").setLevel(logging.DEBUG if given.verbose else logging.INFO)
    try:
        options = {"bootstrap_servers": given.bootstrap_servers}
        settings = load_for_command(given.config, given.set, options)
        await_broker(settings)
        with watching(settings, "resolve") as watch:
            _run(given, settings, watch)
    except TxResolverError as error:
        print(f"resolve: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _run(given: argparse.Namespace, settings: Settings, watch: JobsWatch | None) -> None:
    job = Resolve(spark_session(settings, "txresolver resolve"), settings, given.checkpoint)
    job.start(given.rebuild)
    print(f"resolving: checkpoint={given.checkpoint}", flush=True)
    if watch is not None:
        watch.resolve(job)

    def ended(seconds: float) -> bool:
        if watch is not None:
            watch.health.beat()
        return job.wait(seconds)

    try:
        if run_until_stopped(ended, job.has_run, f"ready: checkpoint={given.checkpoint}"):
            job.raise_end()
    finally:
        if watch is not None:
            watch.rest()
        job.stop(STOP_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
