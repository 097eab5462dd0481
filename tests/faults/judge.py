"""The judge: the load's sent log against what a `read_committed` consumer finds in the topics.

What must not be (a second message, one that nobody decided to commit) is seen as soon as it is
read. What must be is waited for: `open` has the halves whose story is not yet complete.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from resolver.demo.reading import Read
from resolver.protocol import Names, Outcome, Resolution, Source, decode_resolution
from resolver.protocol.names import FAST, HALF_HEADERS, HALF_OFFSET, OUTPUT_HEADERS, REAL_TOPIC

from .load import SILENT, UNDECIDED, UNDELIVERED, Fate, name_of
from .order import KeyOrder, Order
from .sent_log import COMMIT, ROLLBACK, Sent, SentLog, Stored, digest

_OURS = HALF_HEADERS | OUTPUT_HEADERS


@dataclass
class Verdict:
    """What was found: how many stories are complete, and which are not as they must be."""

    settled: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def since(self, earlier: Verdict) -> Verdict:
        return Verdict(
            self.settled - earlier.settled,
            self.lost[len(earlier.lost) :],
            self.doubled[len(earlier.doubled) :],
            self.wrong[len(earlier.wrong) :],
        )

    def copy(self) -> Verdict:
        return Verdict(self.settled, list(self.lost), list(self.doubled), list(self.wrong))

    @property
    def holds(self) -> bool:
        return not (self.lost or self.doubled or self.wrong)


class Judge:
    """Takes records in any order between the topics, each topic's as Kafka gives them.

    Halves are known as `queue:offset`, messages by the name that the load gave them. Of a story
    that is complete only these two are kept, to know a double by.

    `in_topics` is False where only the sent log has halves: none of them is fast.
    """

    def __init__(
        self, sent_log: SentLog, names: Names, queues: int = 4, in_topics: bool = True
    ) -> None:
        self._sent_log = sent_log
        self._names = names
        self._in_topics = in_topics
        self._read_to = {"sent": 0, "stored": 0, "decided": 0, "committed": 0}
        self._sent: dict[str, Sent] = {}
        self._stored: dict[str, Stored] = {}
        self._decided: dict[str, str] = {}
        self._name_of: dict[str, str] = {}
        self._outcomes: dict[str, str] = {}
        #: Halves that were read, and whether their producer may deliver them itself.
        self._fast: dict[str, bool] = {}
        #: Resolutions of halves that were not read yet.
        self._early: dict[str, Resolution] = {}
        #: Halves whose messages may stand anywhere: fast ones, and those that others ended.
        self._unordered: set[str] = set()
        self._order_of_queue = Order()
        self._order_of_key = KeyOrder(queues)
        #: Halves and names of which there is a message, in a real topic or among the discarded.
        self._delivered: set[str] = set()
        self._given_up: set[str] = set()
        self._seen: set[str] = set()
        self._ended: set[str] = set()
        #: Names of what ended without a decision, as nobody knew that it was stored.
        self._let_go: set[str] = set()
        self._since = 0.0
        self._by_check = False
        self._lanes: frozenset[str] = frozenset()
        self._flowing: set[str] = set()
        #: Real topics that a message was found in.
        self.topics: set[str] = set()
        #: Seconds from then until a transaction that was begun later was visible, in each lane.
        self.recovery: float | None = None
        #: Seconds that a message took at most, from then or from when its half was stored.
        self.slowest = 0.0
        #: How far Kafka's clock is ahead of ours, by the last half that has an outcome.
        self.ahead_seconds = 0
        self.open: set[str] = set()
        self.verdict = Verdict()

    def count_from(
        self, since: float, by_check: bool = False, lanes: frozenset[str] = frozenset()
    ) -> None:
        """Take the recovery from this time on; `by_check`: of what only a check can end.

        `lanes` are queues and real topics, each of which has to flow again; empty for any one.
        """
        self._since, self._by_check, self.recovery = since, by_check, None
        self._lanes, self._flowing, self.slowest = lanes, set(), 0.0

    @property
    def in_order(self) -> int:
        """How many delivered messages were judged by the commits of their ordering key."""
        return self._order_of_key.judged

    def undecided(self) -> list[str]:
        """Return the names of messages whose half is stored and whose fate the load has open."""
        return [
            name
            for name in self._stored
            if name not in self._decided and self._sent[name].fate not in UNDECIDED
        ]

    def apart(self) -> set[str]:
        """Return the halves with an outcome and without what goes with it, or the reverse.

        A fast message is there before its outcome.
        """
        return {half for half in self.open if self._is_apart(half)}

    def _is_apart(self, half: str) -> bool:
        if half in self._outcomes or half in self._given_up:
            return True
        return half in self._delivered and not self._fast.get(half)

    def take(self, reads: list[Read]) -> None:
        """Take records; the sent log is read after them, so it knows what they come from."""
        self._read_sent_log()
        touched = {self._take(read) for read in reads}
        for half in touched & self.open:
            self._complete(half)

    def give_up(self, halves: set[str]) -> None:
        """Count as lost what is still open of these."""
        for half in sorted(halves & self.open):
            self.verdict.lost.append(f"{half}: {self._what_is_missing(half)}")
            self.open.discard(half)

    def _what_is_missing(self, half: str) -> str:
        if half in self._outcomes:
            return f"{self._outcomes[half]}, without its message"
        if half in self._delivered or half in self._given_up:
            return "a message without its outcome"
        return "still open"

    def _read_sent_log(self) -> None:
        for number, sent in self._sent_log.sent_after(self._read_to["sent"]):
            self._sent[sent.name] = sent
            self._read_to["sent"] = number
        for number, stored in self._sent_log.stored_after(self._read_to["stored"]):
            self._read_to["stored"] = number
            self._see_let_go(stored.name, "acknowledged")
            if stored.half in self._ended:
                continue  # the load was halted before it could write it down
            self._begin(stored.half, stored.name)
            self._stored[stored.name] = stored
        for number, decided in self._sent_log.decided_after(self._read_to["decided"]):
            # An agent may answer a check when the producer has rolled back. Both say the same then.
            if decided.outcome != ROLLBACK:
                self._see_let_go(decided.name, decided.outcome)
            self._decided[decided.name] = decided.outcome
            self._read_to["decided"] = number
        for number, committed in self._sent_log.committed_after(self._read_to["committed"]):
            self._order_of_key.committed(committed.name, committed.ordering, number)
            self._read_to["committed"] = number

    def _see_let_go(self, name: str, event: str) -> None:
        """See that the load does not go on with what has ended without it."""
        if name in self._let_go:
            self.verdict.lost.append(f"{name}: {event}, and rolled back before")

    def _begin(self, half: str, name: str) -> None:
        known = self._name_of.setdefault(half, name)
        if known != name:
            self.verdict.wrong.append(f"{half}: acknowledged as {name}, stored as {known}")
        if half not in self._ended:
            self.open.add(half)
            if not self._in_topics:
                self._fast[half] = False

    def _take(self, read: Read) -> str:
        if read.topic == self._names.half:
            half, name = f"{read.partition}:{read.offset}", name_of(read.headers)
            if name:  # without one it is a malformed one
                self._begin(half, name)
            if half in self.open:
                self._fast[half] = read.header(FAST) is not None
                self._note_order(half, self._early.pop(half, None))
            return half
        if read.topic == self._names.resolution:
            resolution = decode_resolution(read.value)
            half = f"{resolution.queue}:{resolution.offset}"
            self._resolve(half, resolution.outcome.value)
            if half in self._fast:
                self._note_order(half, resolution)
            else:
                self._early[half] = resolution
            self.ahead_seconds = (resolution.stored_at - resolution.born_at) // 1_000
            return half
        half = read.header(HALF_OFFSET) or f"{read.topic}:{read.partition}:{read.offset}"
        self._find(half, read)
        return half

    def _note_order(self, half: str, resolution: Resolution | None) -> None:
        """Note where a message must stand. A fast half's may stand anywhere: its end may wait."""
        if (
            resolution is None
            or resolution.outcome is not Outcome.COMMIT
            or resolution.op_offset is None
        ):
            return
        is_fast = self._fast[half]
        self._see_order(
            self._order_of_queue.number(half, None if is_fast else resolution.op_offset)
        )
        if is_fast or resolution.source is not Source.END:
            self._unordered.add(half)

    def _resolve(self, half: str, outcome: str) -> None:
        if half in self._outcomes or half in self._ended:
            self.verdict.doubled.append(f"{half}: another outcome, {outcome}")
        self._outcomes[half] = outcome

    def _find(self, half: str, read: Read) -> None:
        """Note a message: of each half, and of each name, there is one, wherever it is."""
        name, is_given_up = name_of(read.headers), read.topic == self._names.discarded
        if half in self._delivered or half in self._given_up or name in self._seen:
            self.verdict.doubled.append(f"{half}: another message, {name}, in {read.topic}")
            return
        self._seen.add(name)
        if half in self._ended:
            self.verdict.wrong.append(f"{half}: ended without a message, and is in {read.topic}")
            return
        known = self._name_of.get(half, name)
        if known != name:
            self.verdict.wrong.append(f"{half}: it is {known}, and its message is {name}")
        if is_given_up:
            self._given_up.add(half)
            self._see_bits(half, name, read, read.header(REAL_TOPIC) or "")
            return
        self._delivered.add(half)
        self.topics.add(read.topic)
        lane = (half.partition(":")[0], read.topic, read.partition)
        self._see_order(self._order_of_queue.message(half, lane))
        self.verdict.wrong += self._order_of_key.message(half, name, read.topic, read.partition)
        if self._decided.get(name) != COMMIT:
            decided = self._decided.get(name, "nothing")
            self.verdict.wrong.append(f"{half}: delivered, and the load decided {decided}")
        else:
            self._see_bits(half, name, read, read.topic)
            self._see_partition(half, name, read)
        self._note_recovery(half, name, read)

    def _see_bits(self, half: str, name: str, read: Read, topic: str) -> None:
        headers = [header for header in read.headers if header[0] not in _OURS]
        if digest(topic, read.key, read.value, headers) != self._sent[name].content:
            self.verdict.wrong.append(f"{half}: in {read.topic} with other bits than were sent")

    def _see_partition(self, half: str, name: str, read: Read) -> None:
        expected = self._sent[name].partition
        if expected not in (None, read.partition):
            where = f"partition {read.partition} of {read.topic}"
            self.verdict.wrong.append(f"{half}: in {where}, and not in {expected}")

    def _see_order(self, halves: list[str]) -> None:
        for half in halves:
            self.verdict.wrong.append(f"{half}: behind a message with a later op")

    def _note_recovery(self, half: str, name: str, read: Read) -> None:
        stored, received_at = self._stored.get(name), read.received_ms / 1_000
        if stored is None or (self._lanes and read.topic not in self._lanes):
            return
        fate = self._sent[name].fate
        if fate == Fate.COMMIT.name:
            self.slowest = max(self.slowest, received_at - max(self._since, stored.known_at))
        if self.recovery is not None or stored.known_at <= self._since:
            return
        if not self._by_check or fate in SILENT:
            self._flowing |= {half.partition(":")[0], read.topic}
            if self._lanes <= self._flowing:
                self.recovery = received_at - self._since

    def _complete(self, half: str) -> None:
        """End a half's story if it has an outcome and the message, if any, that goes with it."""
        outcome = self._outcomes.get(half)
        with_message = self._delivered if outcome == Outcome.COMMIT.value else self._given_up
        if outcome is None or (outcome != Outcome.ROLLBACK.value and half not in with_message):
            return
        if half not in self._fast:
            return  # the half itself was not read yet
        name = self._name_of[half]
        self.verdict.wrong += self._order_of_key.ended(half, name, half not in self._unordered)
        decided, expected = self._decided.get(name), self._expected(name)
        if half in self._given_up and outcome in (Outcome.COMMIT.value, Outcome.ROLLBACK.value):
            self.verdict.wrong.append(f"{half}: {outcome}, and among the discarded")
        if outcome != expected:
            # The producer itself rolls back what the load was told is not stored, and is.
            if (decided, outcome) == (None, Outcome.ROLLBACK.value) and name not in self._stored:
                self._let_go.add(name)
            else:
                of_kind = self.verdict.lost if decided == COMMIT else self.verdict.wrong
                of_kind.append(f"{half}: {outcome}, and the load decided {decided or 'nothing'}")
        self._forget(half, name)

    def _expected(self, name: str) -> str | None:
        """Return the outcome that a message must have, by what load and agent wrote down."""
        fate, decided = self._sent[name].fate, self._decided.get(name)
        if fate == Fate.UNKNOWN.name:
            return Outcome.DISCARD.value
        if fate in UNDELIVERED and decided == COMMIT:
            return Outcome.UNDELIVERABLE.value
        return decided

    def _forget(self, half: str, name: str) -> None:
        self.open.discard(half)
        self._ended.add(half)
        self.verdict.settled += 1
        for known in (self._sent, self._stored, self._decided):
            known.pop(name, None)
        self._unordered.discard(half)
        self._fast.pop(half, None)
        self._outcomes.pop(half)
        self._name_of.pop(half)
