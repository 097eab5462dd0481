"""The job `audit`: recomputes every outcome from the landed tables and compares.

`txresolver audit` runs it. It also runs by itself on a cluster:

    spark-submit pipelines/audit.py --tables DIR [--topics --bootstrap-servers H]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from resolver.audit.job import run
from resolver.errors import TxResolverError
from resolver.settings import load_for_command


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Audit the ledger against the protocol's rules.")
    parser.add_argument("--config", type=Path, help="settings file (TOML)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--bootstrap-servers", help="Kafka's brokers, host:port")
    parser.add_argument("--tables", required=True, help="folder of the tables")
    parser.add_argument("--topics", action="store_true", help="compare with the real topics too")
    parser.add_argument("--examples", type=int, default=10, help="violations shown of each kind")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit once and print the report."""
    given = _arguments(arguments)
    try:
        options = {"bootstrap_servers": given.bootstrap_servers}
        settings = load_for_command(given.config, given.set, options)
        report = run(settings, given.tables, given.topics, given.examples)
    except TxResolverError as error:
        print(f"audit: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(report.as_json(), indent=2) if given.json else "\n".join(report.lines()))
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
