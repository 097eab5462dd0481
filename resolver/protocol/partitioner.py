"""The partition of a key: one rule for halves and for delivered messages."""

from __future__ import annotations

from confluent_kafka import murmur2

#: Name of the same rule among librdkafka's options. Without a key it picks any partition.
PARTITIONER = "murmur2_random"


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition that Java's default partitioner puts a key in, an empty key too."""
    return int(murmur2(key, partitions))
