"""How throughput, batch time, memory and state grow: with what is settled, pending, and so on."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence

from pyspark.sql import functions as F

from . import progress
from .backlog import resolve_backlog
from .processes import Peak
from .results import CaseFigures, Figures
from .setup import Setup, Topics, await_batch, load

#: The load under which a batch is timed, transactions a second.
LIVE_RATE = 2_000
#: Most bytes of bodies in a backlog.
_BODIES_BYTES = 1_000_000_000
_SMALL_BYTES = 128
#: An immunity that outlasts the measurement, and ends for all at about the same time.
_HELD_SECONDS = 86_400
_AT_ONCE = 1_000_000_000
_FEW_PENDING = 1_000
#: Batches after a start that load the state first.
_SETTLING_BATCHES = 2
#: How often the most settled is measured, each time between two measurements of the fewest.
_IN_TURN = 2
_MEGABYTE = 1 << 20


class Growing:
    """Topics on which more and more has happened."""

    def __init__(self, setup: Setup, topics: Topics, body_bytes: int = 512) -> None:
        self._setup = setup
        self._topics = topics
        self._body_bytes = body_bytes
        self._settled = 0
        self._pending = 0

    def settle(self, count: int) -> None:
        """Store and resolve small transactions until `count` are settled; small saves disk."""
        self._end(max(0, count - self._settled), body_bytes=_SMALL_BYTES)
        self._resolve()

    def hold(self, count: int) -> None:
        """Store halves that stay pending: their immunity outlasts the measurement."""
        due_at = time.time() + _HELD_SECONDS
        self._store(count, no_ops=True, due_at=due_at, due_rate=_AT_ONCE)
        self._pending += count
        self._resolve()

    def measure(self, transactions: int, seconds: float) -> Figures:
        """Time batches under a steady load, look at the state, then time a backlog."""
        at_first = {"settled": self._settled, "pending": self._pending}
        live = self.live(seconds)
        then = {"state_mb": self._state_bytes() / _MEGABYTE, "settled_then": self._settled}
        self._end(transactions)
        backlog = resolve_backlog(self._setup, self._topics, transactions)
        return {
            **at_first,
            **live,
            **then,
            "per_second": backlog["per_second"],
            "cpu_per_million": backlog["cpu_per_million"],
        }

    def live(self, seconds: float) -> Figures:
        """Time batches under a steady load."""
        with self._setup.resolving(self._topics) as job, Peak() as peak:
            await_batch(job)
            before = progress.last_batch(job.query)
            self._end(int(LIVE_RATE * seconds), rate=LIVE_RATE)
            figures = progress.batch_figures(job.query, after=before + _SETTLING_BATCHES)
            memory = progress.state_memory(job.query)
        return {**figures, **memory, "memory_mb": peak.memory}

    def _end(self, count: int, **options: object) -> None:
        """Store transactions that end."""
        self._store(count, **options)
        self._settled += count

    def _store(self, count: int, **options: object) -> None:
        first = self._settled + self._pending
        load_options = {"body_bytes": self._body_bytes, "first": first, **options}
        with load(self._topics, count, **load_options) as loading:
            loading.result()

    def _resolve(self) -> None:
        ends = progress.ends_of(self._topics)
        with self._setup.resolving(self._topics) as job:
            progress.await_read(job, ends)

    def _state_bytes(self) -> float:
        """Return the bytes of the state's keys and values, as the checkpoint has them."""
        state = (
            self._setup.spark.read.format("statestore")
            .option("stateVarName", "state")
            .load(f"{self._topics.checkpoint}/spark")
        )
        size = F.length("user_map_key.key") + F.length("user_map_value.value")
        row = state.agg(F.sum(size)).head()
        return float(row[0]) if row else 0.0


def with_settled(
    setup: Setup, settled: tuple[int, ...], transactions: int, seconds: float
) -> Iterator[CaseFigures]:
    """Measure with more and more settled transactions, each of them sent and resolved."""
    with setup.topics() as topics:
        growing = Growing(setup, topics)
        growing.hold(_FEW_PENDING)
        for count in settled:
            growing.settle(count)
            yield f"{count:,} settled", growing.measure(transactions, seconds)
        case = f"{settled[-1]:,} beside {settled[0]:,}"
        yield case, _in_turn(setup, growing, settled[0], seconds)


def _in_turn(setup: Setup, growing: Growing, few: int, seconds: float) -> Figures:
    """Time batches on these topics and on others with `few` settled, in turn."""
    of_many: list[float] = []
    of_few = [_with_few(setup, few, seconds)]
    for _ in range(_IN_TURN):
        of_many.append(growing.live(seconds)["batch_p50_ms"])
        of_few.append(_with_few(setup, few, seconds))
    return in_turn_figures(of_many, of_few)


def _with_few(setup: Setup, few: int, seconds: float) -> float:
    """Return the time of a batch on new topics, so that never more are settled there."""
    with setup.topics() as topics:
        growing = Growing(setup, topics)
        growing.hold(_FEW_PENDING)
        growing.settle(few)
        return float(growing.live(seconds)["batch_p50_ms"])


def in_turn_figures(of_many: Sequence[float], of_few: Sequence[float]) -> Figures:
    """Compare each with what was measured directly before it and directly after."""
    neighbours = zip(of_many, of_few[:-1], of_few[1:], strict=True)
    times = [many / few for many, before, after in neighbours for few in (before, after)]
    return {
        "many_batch_p50_ms": statistics.median(of_many),
        "few_batch_p50_ms": statistics.median(of_few),
        "times": statistics.median(times),
        "least_times": min(times),
        "most_times": max(times),
    }


def with_pending(
    setup: Setup, pending: tuple[int, ...], transactions: int, seconds: float
) -> Iterator[CaseFigures]:
    """Measure with each number of pending transactions, inside their immunity."""
    for count in pending:
        with setup.topics() as topics:
            growing = Growing(setup, topics)
            growing.hold(count)
            yield f"{count:,} pending", growing.measure(transactions, seconds)


def with_queues(
    setup: Setup, queues: tuple[int, ...], transactions: int, seconds: float
) -> Iterator[CaseFigures]:
    """Measure with each number of queues."""
    for count in queues:
        with setup.topics(queues=count) as topics:
            yield f"{count} queues", Growing(setup, topics).measure(transactions, seconds)


def with_bodies(
    setup: Setup, bodies: tuple[int, ...], transactions: int, seconds: float
) -> Iterator[CaseFigures]:
    """Measure with each size of bodies; a backlog of large ones has fewer of them."""
    for size in bodies:
        with setup.topics() as topics:
            count = min(transactions, _BODIES_BYTES // size)
            yield f"{size:,} bytes", Growing(setup, topics, size).measure(count, seconds)
