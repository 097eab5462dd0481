"""The job `audit`: recomputes every outcome from the landed tables and compares.

`txresolver audit` runs it. It also runs by itself on a cluster:

    spark-submit pipelines/audit.py --tables DIR [--topics --bootstrap-servers H]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial

from pipelines.command_line import parser, run
from resolver.audit.job import run as run_audit
from resolver.settings import Settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit once and print the report."""
    command = parser("Audit the ledger against the protocol's rules.")
    command.add_argument("--tables", required=True, help="folder of the tables")
    command.add_argument("--topics", action="store_true", help="compare with the real topics too")
    command.add_argument("--examples", type=int, default=10, help="violations shown of each kind")
    command.add_argument("--json", action="store_true", help="as JSON")
    options = command.parse_args(arguments)
    return run("audit", options, partial(_audit, options))


def _audit(options: argparse.Namespace, settings: Settings) -> int:
    report = run_audit(settings, options.tables, options.topics, options.examples)
    print(json.dumps(report.as_json(), indent=2) if options.json else "\n".join(report.lines()))
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
