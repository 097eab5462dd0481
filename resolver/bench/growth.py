"""How throughput, batch time, memory and state grow: with what is settled, pending, and so on."""

from __future__ import annotations

import time
from collections.abc import Iterator

from pyspark.sql import functions as F

from resolver.bench import progress
from resolver.bench.backlog import resolve_backlog
from resolver.bench.processes import Peak
from resolver.bench.results import Figures, Found
from resolver.bench.stage import Stage, Topics, await_batch, load

#: The load under which a batch is timed, transactions a second.
LIVE_RATE = 2_000
#: Bytes of bodies that a batch may have, and that are stored at all.
_BATCH_BYTES = 82_000_000
_BODIES_BYTES = 1_000_000_000
_SMALL_BYTES = 128
#: An immunity that outlasts the measurement, and ends for all at about the same time.
_HELD_SECONDS = 86_400
_AT_ONCE = 1_000_000_000
_FEW_PENDING = 1_000
#: Batches after a start that load the state first.
_SETTLING_BATCHES = 2
_MEGABYTE = 1 << 20


class Growing:
    """Topics on which more and more has happened."""

    def __init__(self, stage: Stage, topics: Topics, body_bytes: int = 512) -> None:
        self._stage = stage
        self._topics = topics
        self._body_bytes = body_bytes
        self._stored = 0
        self._pending = 0

    def settle(self, count: int) -> None:
        """Store and resolve so many that `count` are settled; small ones, to save the disk."""
        missing = count - (self._stored - self._pending)
        if missing > 0:
            self._store(missing, body_bytes=_SMALL_BYTES)
            self._resolve()

    def hold(self, count: int) -> None:
        """Store halves inside their immunity, until so many are pending."""
        due_at = time.time() + _HELD_SECONDS
        missing = count - self._pending
        self._store(missing, no_ops=True, due_at=due_at, due_rate=_AT_ONCE)
        self._pending = count
        self._resolve()

    def measure(self, transactions: int, seconds: float) -> Figures:
        """Time batches under a steady load, then a backlog; then look at the state."""
        state = {"state_mb": self._state_bytes() / _MEGABYTE} if self._stored else {}
        live = self._live(seconds)
        self._store(transactions)
        figures = resolve_backlog(self._stage, self._topics, transactions)
        return {
            "per_second": figures["per_second"],
            "cpu_per_million": figures["cpu_per_million"],
            **live,
            **state,
        }

    def _store(self, count: int, **options: object) -> None:
        given = {"body_bytes": self._body_bytes, "first": self._stored, **options}
        with load(self._topics, count, **given) as loading:
            loading.result()
        self._stored += count

    def _resolve(self) -> None:
        ends = progress.ends_of(self._topics)
        with self._stage.resolving(self._topics) as job:
            progress.await_read(job, ends)

    def _live(self, seconds: float) -> Figures:
        with self._stage.resolving(self._topics) as job, Peak() as peak:
            await_batch(job)
            before = progress.last_batch(job.query)
            self._store(int(LIVE_RATE * seconds), rate=LIVE_RATE)
            figures = progress.batch_figures(job.query, after=before + _SETTLING_BATCHES)
            memory = progress.state_memory(job.query)
        return {**figures, **memory, "memory_mb": peak.memory}

    def _state_bytes(self) -> float:
        """Return the bytes of the state's keys and values, as the checkpoint has them."""
        state = (
            self._stage.spark.read.format("statestore")
            .option("stateVarName", "state")
            .load(f"{self._topics.checkpoint}/spark")
        )
        size = F.length("user_map_key.key") + F.length("user_map_value.value")
        found = state.agg(F.sum(size)).head()
        return float(found[0]) if found else 0.0


def with_settled(
    stage: Stage, settled: tuple[int, ...], transactions: int, seconds: float
) -> Iterator[Found]:
    """Find what it is with more and more settled transactions, each of them sent and resolved."""
    with stage.topics() as topics:
        growing = Growing(stage, topics)
        growing.hold(_FEW_PENDING)
        for count in settled:
            growing.settle(count)
            yield f"{count:,} settled", growing.measure(transactions, seconds)


def with_pending(
    stage: Stage, pending: tuple[int, ...], transactions: int, seconds: float
) -> Iterator[Found]:
    """Find what it is with more and more pending transactions, inside their immunity."""
    with stage.topics() as topics:
        growing = Growing(stage, topics)
        for count in pending:
            growing.hold(count)
            yield f"{count:,} pending", growing.measure(transactions, seconds)


def with_queues(
    stage: Stage, queues: tuple[int, ...], transactions: int, seconds: float
) -> Iterator[Found]:
    """Find what it is with other numbers of queues."""
    for count in queues:
        with stage.topics(queues=count) as topics:
            yield f"{count} queues", Growing(stage, topics).measure(transactions, seconds)


def with_bodies(
    stage: Stage, bodies: tuple[int, ...], transactions: int, seconds: float
) -> Iterator[Found]:
    """Find what it is with bodies of other sizes; a batch of large ones has fewer of them."""
    for size in bodies:
        most = min(stage.settings.max_offsets_per_trigger, _BATCH_BYTES // size)
        with stage.topics(max_offsets_per_trigger=most) as topics:
            count = min(transactions, _BODIES_BYTES // size)
            growing = Growing(stage, topics, size)
            yield f"{size:,} bytes, {most:,} a batch", growing.measure(count, seconds)
