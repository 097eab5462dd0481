"""What the topics say of all transactions: counts, what is pending, how long it took."""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple

from ..protocol import Names, Outcome, Resolution, Source, decode_resolution
from ..protocol.names import HALF_OFFSET, SOURCE, UNIQ_KEY
from .orders import TOPIC
from .reading import Read

_RECENT = 5_000


class Counts(NamedTuple):
    """How many records of each kind were read."""

    begun: int = 0
    committed: int = 0
    committed_by_check: int = 0
    rolled_back: int = 0
    rolled_back_by_check: int = 0
    discarded: int = 0
    undeliverable: int = 0
    checks: int = 0
    quarantined: int = 0
    delivered: int = 0

    def since(self, earlier: Counts) -> Counts:
        return Counts(*(now - then for now, then in zip(self, earlier, strict=True)))


NONE = Counts()


class Latency(NamedTuple):
    """Seconds: the op's storing, and the half's, until a `read_committed` consumer has it."""

    op_to_visible: float
    half_to_visible: float


class Ledger:
    """Takes records in any order between the topics, each topic's as Kafka gives them."""

    def __init__(self, names: Names, check_topic: str) -> None:
        self._names = names
        self._check_topic = check_topic
        self._counts: Counter[str] = Counter()
        self._begun: set[str] = set()
        self._ended: set[str] = set()
        self._op_times: dict[str, Resolution] = {}
        self._arrived: dict[str, int] = {}
        self.discarded_ids: set[str] = set()
        self.latencies: deque[Latency] = deque(maxlen=_RECENT)

    @property
    def counts(self) -> Counts:
        return Counts(**{name: self._counts[name] for name in Counts._fields})

    @property
    def pending(self) -> int:
        """How many halves have no outcome yet."""
        return len(self._begun)

    def take(self, read: Read) -> None:
        """Take one record."""
        topic = read.topic
        if topic == self._names.half:
            self._counts["begun"] += 1
            self._begin(f"{read.partition}:{read.offset}")
        elif topic == self._names.resolution:
            self._resolve(decode_resolution(read.value))
        elif topic == self._names.discarded:
            self._counts["discarded"] += read.header("REASON") == "CHECK_MAX"
        elif topic == self._names.quarantine:
            self._quarantine(read)
        elif topic == self._check_topic:
            self._counts["checks"] += 1
        elif topic == TOPIC:
            self._deliver(read)

    def _begin(self, at: str) -> None:
        # The outcome may have been read first: these are different topics.
        if at in self._ended:
            self._ended.discard(at)
        else:
            self._begun.add(at)

    def _end(self, at: str) -> None:
        if at in self._begun:
            self._begun.discard(at)
        else:
            self._ended.add(at)

    def _resolve(self, said: Resolution) -> None:
        self._end(f"{said.queue}:{said.offset}")
        by_check = said.source is Source.CHECK
        if said.outcome is Outcome.COMMIT:
            self._counts["committed"] += 1
            self._counts["committed_by_check"] += by_check
            self._measure_outcome(said)
        elif said.outcome is Outcome.ROLLBACK:
            self._counts["rolled_back"] += 1
            self._counts["rolled_back_by_check"] += by_check
        elif said.outcome is Outcome.UNDELIVERABLE:
            self._counts["undeliverable"] += 1
        else:
            self.discarded_ids.add(said.transaction_id)

    def _quarantine(self, read: Read) -> None:
        self._counts["quarantined"] += 1
        topic, _, at = (read.header(SOURCE) or "").partition(":")
        if topic == self._names.half:
            self._end(at)

    def _deliver(self, read: Read) -> None:
        self._counts["delivered"] += 1
        transaction_id = read.header(UNIQ_KEY)
        if transaction_id is None or read.header(HALF_OFFSET) is None:
            return
        said = self._op_times.pop(transaction_id, None)
        if said is None:
            self._arrived[transaction_id] = read.received_ms
        else:
            self._measure(said, read.received_ms)

    def _measure_outcome(self, said: Resolution) -> None:
        received_ms = self._arrived.pop(said.transaction_id, None)
        if received_ms is None:
            self._op_times[said.transaction_id] = said
        else:
            self._measure(said, received_ms)

    def _measure(self, said: Resolution, received_ms: int) -> None:
        if said.ended_at is not None:
            since_op = (received_ms - said.ended_at) / 1000
            self.latencies.append(Latency(since_op, (received_ms - said.stored_at) / 1000))
