"""How far the query land has come, as its checkpoint tells: it needs no Spark to be asked."""

from __future__ import annotations

from pathlib import Path

import orjson

Offsets = dict[tuple[str, int], int]


def landed_offsets(checkpoint: Path) -> Offsets:
    """Return the offset behind what the tables hold, by topic and partition.

    Spark writes a batch's end offsets, as the last line of `offsets/N`, before the batch, and
    `commits/N` after it.
    """
    batches = [int(file.name) for file in (checkpoint / "commits").glob("[0-9]*")]
    if not batches:
        return {}
    planned = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()
    return {
        (topic, int(partition)): offset
        for topic, partitions in orjson.loads(planned[-1]).items()
        for partition, offset in partitions.items()
    }


def has_landed(checkpoint: Path, wanted: Offsets) -> bool:
    """Whether the tables hold everything before the wanted offsets."""
    landed = landed_offsets(checkpoint)
    return all(landed.get(at, 0) >= offset for at, offset in wanted.items())
