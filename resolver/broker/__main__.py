"""Answers scripts/setup: `python -m resolver.broker java`, `python -m resolver.broker jars`."""

from __future__ import annotations

import sys

from ..errors import BrokerError
from .jars import kafka_classpath, spark_jars, tools_classpath
from .java import find_java


def main(asked: str) -> None:
    """Print the Java that is found, or all jars; fetch jars that are not cached."""
    try:
        jar_sets = (kafka_classpath, tools_classpath, spark_jars)
        paths = [find_java()] if asked == "java" else [jar for jars in jar_sets for jar in jars()]
    except BrokerError as error:
        raise SystemExit(f"error: {error}") from None
    print(*paths, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
