"""What has landed beside what is stored: `python -m resolver.faults.completeness TABLES SERVERS`.

Each record of the protocol's topics, read `read_committed`, must be in the tables once. A program
of its own: a world's tables may be on a disk that only its processes see.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from deltalake import DeltaTable

from ..demo.reading import Reader
from ..kafka import admin_client
from ..protocol import Names
from ..settings import Settings
from ..tables import TABLES, topics_pattern
from ..topic_admin import matching_topics

#: Topic, partition, offset.
Place = tuple[str, int, int]
_COLUMNS = ["source_topic", "source_partition", "source_offset"]
_READ_SECONDS = 1.0
_EXAMPLES = 5


def compare(stored: set[Place], landed: Counter[Place]) -> list[str]:
    """Return what is wrong, a line each."""
    kinds = {
        "not landed": stored - landed.keys(),
        "landed, and not there": landed.keys() - stored,
        "landed more than once": {place for place, count in landed.items() if count > 1},
    }
    return [
        f"{len(places)} {kind}, such as {', '.join(map(_said, sorted(places)[:_EXAMPLES]))}"
        for kind, places in kinds.items()
        if places
    ]


def _said(place: Place) -> str:
    return ":".join(map(str, place))


def _stored(settings: Settings) -> set[Place]:
    pattern = topics_pattern(Names(settings.topic_prefix))
    topics = matching_topics(admin_client(settings), pattern)
    found: set[Place] = set()
    with Reader(settings, topics) as reader:
        while not reader.reached_end:
            found.update(
                (one.topic, one.partition, one.offset) for one in reader.read(_READ_SECONDS)
            )
    return found


def _landed(tables: Path) -> Iterator[Place]:
    for table in TABLES:
        places = DeltaTable(tables / table.name).to_pyarrow_table(columns=_COLUMNS)
        yield from zip(*(places[name].to_pylist() for name in _COLUMNS), strict=True)


def main(tables: str, servers: str) -> int:
    """Print what is wrong; the exit code is 1 if anything is."""
    wrong = compare(_stored(Settings(bootstrap_servers=servers)), Counter(_landed(Path(tables))))
    print("; ".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
