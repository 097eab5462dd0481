"""Answers scripts/setup: `python -m resolver.broker java`, `python -m resolver.broker jars`."""

from __future__ import annotations

import sys

from ..errors import BrokerError
from .jars import kafka_classpath, spark_jars, tools_classpath
from .java import find_java


def main(asked: str) -> None:
    """Print the Java that is found, or all jars; fetch jars that are not cached."""
    try:
        jars = (kafka_classpath, tools_classpath, spark_jars)
        found = [find_java()] if asked == "java" else [jar for of in jars for jar in of()]
    except BrokerError as error:
        raise SystemExit(f"error: {error}") from None
    print(*found, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
