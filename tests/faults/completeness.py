"""What has landed beside what is stored: `python -m tests.faults.completeness TABLES SERVERS`.

Each record of the protocol's topics, read `read_committed`, must be in the tables once. A program
of its own: a world's tables may be on a disk that only its processes see. It reads with large
fetches: in small ones Kafka may show aborted records (`aborted.py`), which are not to land.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from deltalake import DeltaTable

from resolver.demo.reading import Reader
from resolver.kafka.clients import WHOLE_BYTES, admin_client
from resolver.kafka.topic_admin import matching_topics
from resolver.ledger import TABLES, topics_pattern
from resolver.protocol import Names, is_half_fence
from resolver.settings import Settings
from resolver.views.rows import rows_of

#: Topic, partition, offset.
Place = tuple[str, int, int]
_PLACES = (
    "SELECT source_topic AS topic, source_partition AS partition, source_offset AS offset FROM t"
)
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
    in_large_fetches = replace(settings, kafka={"fetch.message.max.bytes": str(WHOLE_BYTES)})
    half, found = Names(settings.topic_prefix).half, set[Place]()
    with Reader(in_large_fetches, topics) as reader:
        while not reader.reached_end:
            found.update(
                (one.topic, one.partition, one.offset)
                for one in reader.read(_READ_SECONDS)
                if one.topic != half or not is_half_fence(one.headers)
            )
    return found


def _landed(tables: Path) -> Iterator[Place]:
    for table in TABLES:
        places = rows_of(DeltaTable(tables / table.name), _PLACES)
        yield from ((row["topic"], row["partition"], row["offset"]) for row in places)


def main(tables: str, servers: str) -> int:
    """Print what is wrong; the exit code is 1 if anything is."""
    wrong = compare(_stored(Settings(bootstrap_servers=servers)), Counter(_landed(Path(tables))))
    print("; ".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
