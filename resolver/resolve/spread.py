"""How Spark spreads the queues over its tasks: evenly."""

from __future__ import annotations

import itertools

from pyspark.sql import SparkSession

#: Seed that Spark uses for all its hashes.
_HASH_SEED = 42


def tasks(spark: SparkSession, queues: int) -> int:
    """Return how many tasks decide: one per queue, or one per core if cores share them evenly.

    A checkpoint keeps the number that it began with.
    """
    context = spark.sparkContext
    cores = context.defaultParallelism if (context.master or "").startswith("local") else queues
    return cores if queues % cores == 0 else queues


def slots(spark: SparkSession, queues: int) -> list[int]:
    """Return a grouping key for each queue, so that Spark spreads queues evenly over its tasks.

    Spark hashes keys. With the numbers 0 to 3 as keys, one of four tasks would get three queues.
    With these keys it spreads the queues evenly over as many tasks, or any divisor of their number.
    """
    assert spark._jvm is not None  # noqa: S101 - only Spark Connect has none
    # Spark's hash partitioning hashes an int so. To ask Spark by a job would delay each start.
    hashing = spark._jvm.org.apache.spark.unsafe.hash.Murmur3_x86_32(_HASH_SEED)
    keys: dict[int, int] = {}
    for slot in itertools.count():
        keys.setdefault(hashing.hashInt(slot) % queues, slot)
        if len(keys) == queues:
            break
    return [keys[queue] for queue in range(queues)]
