"""The command line that the jobs share: their settings, their errors, their health."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from resolver.errors import TxResolverError
from resolver.kafka.reach import await_broker
from resolver.settings import Settings, load_for_command
from resolver.watch.json_log import configure_log
from resolver.watch.watching import watching

if TYPE_CHECKING:
    from resolver.watch.jobs import JobsWatch


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of all jobs."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--config", type=Path, help="settings file (TOML)")
    options.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options.add_argument("--bootstrap-servers", help="Kafka's brokers, host:port")
    return options


def query_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of the jobs that run until somebody stops them."""
    options = parser(description)
    options.add_argument(
        "--log-format", choices=["text", "json"], default="text", help="lines for people, or JSON"
    )
    return options


def run(name: str, options: argparse.Namespace, job: Callable[[Settings], int]) -> int:
    """Run a job with its settings; return its exit code, or that of its error."""
    try:
        servers = {"bootstrap_servers": options.bootstrap_servers}
        return job(load_for_command(options.config, options.set, servers))
    except TxResolverError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code


def run_query(
    name: str,
    options: argparse.Namespace,
    query: Callable[[argparse.Namespace, Settings, JobsWatch | None], None],
    level: int = logging.INFO,
) -> int:
    """Run a query until it ends, once a broker answers, under a watch if the settings want one."""
    configure_log(options.log_format)
    logging.getLogger("resolver").setLevel(level)

    def job(settings: Settings) -> int:
        await_broker(settings)
        with watching(settings, name) as watch:
            query(options, settings, watch)
        return 0

    return run(name, options, job)


def beating(watch: JobsWatch | None, wait: Callable[[float], bool]) -> Callable[[float], bool]:
    """Return `wait`, which lets the watch's health know each time that the job is alive."""
    if watch is None:
        return wait
    health = watch.health

    def waited(seconds: float) -> bool:
        health.beat()
        return wait(seconds)

    return waited
