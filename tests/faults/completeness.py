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
RecordPosition = tuple[str, int, int]
_POSITIONS = (
    "SELECT source_topic AS topic, source_partition AS partition, source_offset AS offset FROM t"
)
_READ_SECONDS = 1.0
_EXAMPLES = 5


def compare(stored: set[RecordPosition], landed: Counter[RecordPosition]) -> list[str]:
    """Return what is wrong, a line each."""
    kinds = {
        "not landed": stored - landed.keys(),
        "landed, and not there": landed.keys() - stored,
        "landed more than once": {position for position, count in landed.items() if count > 1},
    }
    return [
        f"{len(positions)} {kind}, such as {_examples(positions)}"
        for kind, positions in kinds.items()
        if positions
    ]


def _examples(positions: set[RecordPosition]) -> str:
    return ", ".join(":".join(map(str, position)) for position in sorted(positions)[:_EXAMPLES])


def _stored(settings: Settings) -> set[RecordPosition]:
    pattern = topics_pattern(Names(settings.topic_prefix))
    topics = matching_topics(admin_client(settings), pattern)
    in_large_fetches = replace(settings, kafka={"fetch.message.max.bytes": str(WHOLE_BYTES)})
    half, positions = Names(settings.topic_prefix).half, set[RecordPosition]()
    with Reader(in_large_fetches, topics) as reader:
        while not reader.reached_end:
            positions.update(
                (read.topic, read.partition, read.offset)
                for read in reader.read(_READ_SECONDS)
                if read.topic != half or not is_half_fence(read.headers)
            )
    return positions


def _landed(tables: Path) -> Iterator[RecordPosition]:
    for table in TABLES:
        positions = rows_of(DeltaTable(tables / table.name), _POSITIONS)
        yield from ((row["topic"], row["partition"], row["offset"]) for row in positions)


def main(tables: str, servers: str) -> int:
    """Print what is wrong; the exit code is 1 if anything is."""
    wrong = compare(_stored(Settings(bootstrap_servers=servers)), Counter(_landed(Path(tables))))
    print("; ".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
