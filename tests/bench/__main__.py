"""`scripts/bench`: what the resolver and its peers do on this machine, with everything on it."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from resolver.broker import Broker
from resolver.errors import TxResolverError
from resolver.settings import Settings
from resolver.spark.session import spark_session
from tests.support.commit import commit

from .backlog import backlog
from .catalogue import MEASUREMENTS
from .machine import conditions, loop_ms, machine
from .plain_way import plain_backlog
from .report import write_report
from .results import Figures, ResultFile
from .scale import FULL, QUICK, QUICKLY, Scale
from .setup import Setup

#: Number of batches whose times Spark keeps: more than any measurement has.
_SPARK = {"spark.sql.streaming.numRecentProgressUpdates": "2000"}
_COMPARE, _GROWTH = "compare", "growth"


def main(arguments: list[str]) -> int:
    """Measure what was asked for, or report what was measured."""
    options = _arguments(arguments)
    try:
        if options.report:
            write_report(options.results)
        else:
            measure(options.names, _scale(options), options.results)
    except TxResolverError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"bench: interrupted; {options.results} keeps what was measured", file=sys.stderr)
        return 130
    return 0


def measure(names: list[str], scale: Scale, path: Path) -> None:
    """Run `scale.rounds` rounds of the measurements; keep each result as soon as it is there."""
    with (
        tempfile.TemporaryDirectory(prefix="txresolver-bench-") as folder,
        Broker(Path(folder) / "broker") as broker,
        ExitStack() as stack,
    ):
        settings = Settings(bootstrap_servers=broker.bootstrap, spark=_SPARK)
        spark = spark_session(settings, "txresolver bench", home=Path(folder))
        stack.callback(spark.stop)
        setup = Setup(spark, settings, Path(folder))
        results = ResultFile(path)
        results.begin(
            shlex.join(["scripts/bench", *sys.argv[1:]]),
            commit(),
            machine(),
            conditions(settings, scale),
        )
        print(f"results go to {path}; warming up", flush=True)
        backlog(setup, scale.warm_up)
        if "plain" in names:
            plain_backlog(setup, scale.warm_up, scale.waits[0])
        for round_ in range(1, scale.rounds + 1):
            # Reverse every other round: the order of the measurements must not matter.
            for name in names if round_ % 2 else reversed(names):
                for case, figures in MEASUREMENTS[name].cases(setup, scale):
                    results.add(round_, name, case, {**figures, "loop_ms": loop_ms()})
                    print(f"{round_} {name:>9}, {case}: {_line(figures)}", flush=True)


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description=__doc__,
        epilog=_listed(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to measure; see below")
    parser.add_argument("--quick", action="store_true", help="a few, short: less than 5 minutes")
    parser.add_argument("--rounds", type=_number, help="how often all are repeated, in turn")
    parser.add_argument("--transactions", type=_number, help="of a backlog")
    parser.add_argument("--seconds", type=_number, help="that count, of a load that arrives")
    parser.add_argument("--results", type=Path, default=Path("bench.jsonl"), metavar="FILE")
    parser.add_argument(
        "--report",
        action="store_true",
        help="write docs/records/performance/figures.md from the results' FILE",
    )
    options = parser.parse_args(arguments)
    options.names = _named(options.names) or list(QUICKLY if options.quick else _named([_COMPARE]))
    if unknown := set(options.names) - MEASUREMENTS.keys():
        parser.error(f"no measurement {', '.join(unknown)}: there are {', '.join(MEASUREMENTS)}")
    return options


def _number(written: str) -> int:
    if not written.isdecimal() or int(written) == 0:
        raise argparse.ArgumentTypeError(f"{written!r} is no whole number above 0")
    return int(written)


def _named(names: list[str]) -> list[str]:
    """Replace the name of a group by those of its measurements."""
    groups = {
        group: [name for name, measurement in MEASUREMENTS.items() if measurement.group == group]
        for group in (_COMPARE, _GROWTH)
    }
    return [measurement for name in names for measurement in groups.get(name, [name])]


def _listed() -> str:
    lines = [f"  {name:10} {measurement.about}" for name, measurement in MEASUREMENTS.items()]
    return "\n".join(
        [
            "measurements:",
            *lines,
            f"  {_COMPARE:10} {', '.join(_named([_COMPARE]))}: without a name",
            f"  {_GROWTH:10} {', '.join(_named([_GROWTH]))}: an hour a round",
            f"  with --quick and no name: {', '.join(QUICKLY)}",
        ]
    )


def _scale(options: argparse.Namespace) -> Scale:
    scale = QUICK if options.quick else FULL
    window = scale.window
    return replace(
        scale,
        rounds=options.rounds or scale.rounds,
        transactions=options.transactions or scale.transactions,
        window=replace(window, seconds=options.seconds or window.seconds),
    )


def _line(figures: Figures) -> str:
    shown = {name: figure for name, figure in figures.items() if not isinstance(figure, dict)}
    return ", ".join(
        f"{name} {figure:,.4g}" if figure < 100 else f"{name} {figure:,.0f}"
        for name, figure in shown.items()
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
