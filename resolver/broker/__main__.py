"""What scripts/setup asks: `python -m resolver.broker java`, `python -m resolver.broker jars`."""

from __future__ import annotations

import sys

from ..errors import BrokerError
from .jars import kafka_classpath, spark_jars
from .java import find_java


def main(asked: str) -> None:
    """Print the Java that is found, or all jars, fetched where they are not cached."""
    try:
        found = [find_java()] if asked == "java" else [*kafka_classpath(), *spark_jars()]
    except BrokerError as error:
        raise SystemExit(f"error: {error}") from None
    print(*found, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
