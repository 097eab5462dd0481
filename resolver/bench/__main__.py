"""`scripts/bench`: what the resolver does on this machine, with everything on it."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from pipelines.session import spark_session
from resolver.bench.measures import Bench, state
from resolver.broker import Broker
from resolver.settings import Settings

Measurements = dict[str, Callable[[Bench, argparse.Namespace], str]]

_MEASUREMENTS: Measurements = {
    "backlog": lambda bench, given: bench.backlog(given.transactions),
    "live": lambda bench, given: bench.at_rate(200, given.seconds),
    "sustained": lambda bench, given: bench.at_rate(10_000, given.seconds),
    "idle": lambda bench, given: bench.idle(100),
    "state": lambda bench, given: state(),
    "plain": lambda bench, given: bench.plain(given.transactions),
    "rocketmq": lambda bench, given: bench.rocketmq(given.seconds),
}


def main() -> None:
    """Measure what was asked for."""
    known = ", ".join(_MEASUREMENTS)
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("measurement", nargs="*", help=f"of {known}: all")
    parser.add_argument("--transactions", type=int, default=500_000, help="of a backlog")
    parser.add_argument("--seconds", type=int, default=60, help="of a load that arrives at a rate")
    parser.add_argument("--rounds", type=int, default=1, help="how often all are repeated, in turn")
    given = parser.parse_args()
    asked = given.measurement or list(_MEASUREMENTS)
    if unknown := set(asked) - _MEASUREMENTS.keys():
        parser.error(f"no measurement {', '.join(unknown)}: there are {known}")
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        settings = Settings(bootstrap_servers=broker.bootstrap)
        spark = spark_session(settings, "txresolver bench", home=Path(folder))
        try:
            bench = Bench(spark, settings, Path(folder))
            print("warming up", flush=True)
            bench.warm_up()
            for _ in range(given.rounds):
                for name in asked:
                    print(f"{name:>10}: {_MEASUREMENTS[name](bench, given)}", flush=True)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
