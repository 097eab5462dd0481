"""The load: `python -m tests.faults.load`, transactions of every fate at a steady rate.

Its listener, `tests.faults.load:Answers`, is what `txresolver agent` answers checks with.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Message as KafkaMessage
from confluent_kafka import Producer

from resolver.broker.signals import until_stopped
from resolver.errors import SendError
from resolver.producer.listener import TransactionListener
from resolver.producer.message import Message
from resolver.producer.producer import TransactionProducer
from resolver.producer.transaction import Transaction
from resolver.protocol import Element, HalfId, Names, Op, Record, TransactionStatus

from .partitioner import java_partition
from .sent_log import COMMIT, ROLLBACK, Sent, SentLog, digest
from .world_kind import SHORTENED

#: Environment variable with the file of the sent log.
SENT_LOG = "FAULTS_SENT_LOG"
GROUP = "faults"
TOPICS = ("faults.one", "faults.two")
PARTITIONS = 4
#: Real topic with one replica in a cluster; the load sends to it only if it is told to.
ALONE = "faults.alone"
#: Takes messages that are smaller than some; and one that is not there.
SMALL, SMALL_BYTES = "faults.small", 1_500
NOWHERE = "faults.nowhere"
#: Real topic that the group may not publish to, and the settings that say so.
FORBIDDEN = "forbidden"
PERMITTED = f'[groups.{GROUP}]\ntopics = ["faults.*"]\n'
#: Header with the name by which the sent log knows a message.
NAME = "name"
#: Of a half that has an immunity of its own.
IMMUNITY_SECONDS = 3
#: Immunity of the other halves in ms: the resolver's `transaction_timeout_ms`.
IMMUNITY_MS = SHORTENED["transaction_timeout_ms"]
#: Keys by which messages are ordered: so few that each soon has several.
KEYS = 50
_THREADS = 32
#: Seconds from the half to the decision: a kill finds some transactions there.
_THINKING_SECONDS = (0.0, 0.1)
_PAUSE_SECONDS = 0.5

_NAMES = Names()
_log = logging.getLogger(__name__)

OnDelivery = Callable[[Any, KafkaMessage], None]


class Fate(str, Enum):
    """What the load decides, and what it says of it."""

    COMMIT = "commits, and says so"
    ROLLBACK = "rolls back, and says so"
    COMMIT_SILENTLY = "commits, and says nothing"
    ROLLBACK_SILENTLY = "rolls back, and says nothing"
    COMMIT_LATE = "commits, says nothing, and UNKNOWN when first asked"
    TOO_LATE = "commits, and says so when its immunity is over: a check's answer counts"
    NEVER = "decides nothing: the first check does"
    UNKNOWN = "decides nothing, and never knows: it is given up"
    UNDELIVERABLE = "commits what its topic does not take"
    NOT_PERMITTED = "commits what its group may not publish, by a client that knows no policy"
    OPERATOR = "commits, and an operator says so"
    CONFLICT = "commits, and says the opposite after it"


#: Per cent.
SHARES = {
    Fate.COMMIT: 61,
    Fate.ROLLBACK: 11,
    Fate.COMMIT_SILENTLY: 6,
    Fate.ROLLBACK_SILENTLY: 4,
    Fate.COMMIT_LATE: 3,
    Fate.TOO_LATE: 2,
    Fate.NEVER: 3,
    Fate.UNKNOWN: 3,
    Fate.UNDELIVERABLE: 3,
    Fate.NOT_PERMITTED: 1,
    Fate.OPERATOR: 1,
    Fate.CONFLICT: 2,
}
#: Those that nobody but a check, or nothing at all, ends.
UNDECIDED = frozenset({Fate.NEVER.name, Fate.UNKNOWN.name})
#: Those that are decided and not told: a check ends them.
SILENT = frozenset({Fate.COMMIT_SILENTLY.name, Fate.ROLLBACK_SILENTLY.name, Fate.COMMIT_LATE.name})
#: Those whose commits are not delivered.
UNDELIVERED = frozenset({Fate.UNDELIVERABLE.name, Fate.NOT_PERMITTED.name})
#: How often something malformed comes with a transaction.
_MALFORMED = 0.01
#: How often a message names its partition, and how often its half has an immunity of its own.
_CHOOSES = 0.05
_IS_IMMUNE = 0.05
#: Longest wait for the acknowledgement of a half that the load stores by itself.
_STORED_SECONDS = 10.0
#: Most seconds by which an end is too late.
_LATE_SECONDS = 0.3
_STATUS_OF = {
    COMMIT: TransactionStatus.COMMIT_MESSAGE,
    ROLLBACK: TransactionStatus.ROLLBACK_MESSAGE,
}


class Answers(TransactionListener):
    """Answers from the sent log; what was not decided is rolled back here and now."""

    def __init__(self) -> None:
        self._sent_log = SentLog(Path(os.environ[SENT_LOG]))

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        """Settle it: what is decided here, a slow local transaction can't decide otherwise."""
        name = name_of(message.headers)
        fate = self._sent_log.fate(name)
        if fate == Fate.UNKNOWN.name or (fate == Fate.COMMIT_LATE.name and message.check_times < 2):
            return TransactionStatus.UNKNOWN
        return _STATUS_OF[self._sent_log.decide(name, ROLLBACK)]


class Stored(NamedTuple):
    """A half that the load stored by itself."""

    message: Message
    transaction_id: str
    queue: int
    offset: int


class Producers(NamedTuple):
    """An ordinary one, one of fast commits, and one that sends what no producer of ours would."""

    ordinary: TransactionProducer
    fast: TransactionProducer
    raw: Producer


class Load:
    """Sends transactions, several at once; `fast` is the share that may be committed fast."""

    def __init__(
        self,
        producers: Producers,
        sent_log: SentLog,
        rate: float,
        fast: float = 0,
        topics: Sequence[str] = TOPICS,
        keys: int = KEYS,
    ) -> None:
        self._producers = producers
        self._raw = producers.raw
        self._fast = fast
        self._sent_log = sent_log
        self._rate = rate
        self._topics = topics
        self._keys = keys
        #: One commit of an ordering key at a time: what is promised is an order of these.
        self._turn_of_key: defaultdict[bytes, threading.Lock] = defaultdict(threading.Lock)
        self._room = threading.Semaphore(2 * _THREADS)

    def run(self) -> None:
        """Send until interrupted; what was begun is finished."""
        chance = random.Random()  # noqa: S311 - messages, not secrets
        due = time.monotonic()
        with ThreadPoolExecutor(_THREADS) as pool:
            while True:
                time.sleep(max(0.0, due - time.monotonic()))
                # What could not be sent in time is not made up for in a burst.
                due = max(due + 1 / self._rate, time.monotonic() - 1.0)
                (fate,) = chance.choices(list(SHARES), list(SHARES.values()))
                self._room.acquire()
                message = random_message(fate, chance, self._topics, self._keys)
                pool.submit(self._run, fate, message)
                if chance.random() < _MALFORMED:
                    self._produce(Record(_NAMES.half, None, b"malformed", [], 0))
                    self._produce(Record(_NAMES.op, None, b"malformed", [], 0))
                self._raw.poll(0)

    def _run(self, fate: Fate, message: Message) -> None:
        try:
            self._transact(fate, message)
        except SendError as error:
            # The half may be stored all the same: its check finds nothing decided.
            _log.warning("not sent: %s", error)
            time.sleep(_PAUSE_SECONDS)
        except Exception:
            _log.exception("the load is at fault")
            os._exit(1)  # a pool would keep it to itself
        finally:
            self._room.release()

    def _transact(self, fate: Fate, message: Message) -> None:
        name = name_of(message.headers)
        content = digest(message.topic, message.key, message.body, message.headers)
        self._sent_log.sent(Sent(name, fate.name, content, partition_of(message)))
        is_fast = random.random() < self._fast  # noqa: S311
        producer = self._producers.fast if is_fast else self._producers.ordinary
        foreign = fate is Fate.NOT_PERMITTED
        transaction = self._store(message) if foreign else producer.begin(message)
        self._sent_log.stored(name, transaction.message.half_offset)
        time.sleep(random.uniform(*_THINKING_SECONDS))  # noqa: S311
        # No order is promised between fast messages and others.
        self._end(fate, name, transaction, None if is_fast else message.queue_key)

    def _store(self, message: Message) -> Stored:
        """Store a half that the producer would refuse; raises `SendError` if it may not be."""
        transaction_id, answered = str(uuid.uuid4()), threading.Event()
        half = message.to_half(GROUP, transaction_id, time.time_ns() // 1_000_000)
        offsets: list[int] = []

        def take(error: Any, stored: KafkaMessage) -> None:
            if error is None:
                offsets.append(stored.offset() or 0)
            answered.set()

        self._produce(half.to_record(_NAMES.half, 0), take)
        if not answered.wait(_STORED_SECONDS) or not offsets:
            raise SendError(f"the half of {transaction_id} was not acknowledged")
        stored = Message.of_half(half, HalfId(0, offsets[0]))
        return Stored(stored, transaction_id, 0, offsets[0])

    def _end(
        self, fate: Fate, name: str, transaction: Transaction | Stored, order: bytes | None
    ) -> None:
        if fate.name in UNDECIDED:
            return
        wanted = ROLLBACK if fate in (Fate.ROLLBACK, Fate.ROLLBACK_SILENTLY) else COMMIT
        outcome = self._sent_log.decide(name, wanted)
        if fate.name in SILENT:
            return
        if fate is Fate.TOO_LATE:
            time.sleep(IMMUNITY_SECONDS + random.uniform(0, _LATE_SECONDS))  # noqa: S311
        if isinstance(transaction, Stored):
            self._say(transaction, _STATUS_OF[outcome])
        elif outcome == ROLLBACK:
            transaction.rollback()
        elif fate is Fate.OPERATOR:
            self._say(transaction, TransactionStatus.COMMIT_MESSAGE, actor="campaign")
        elif fate is Fate.CONFLICT:  # by one producer: so they stand in this order
            self._say(transaction, TransactionStatus.COMMIT_MESSAGE)
            self._say(transaction, TransactionStatus.ROLLBACK_MESSAGE)
        else:
            self._commit(name, transaction, order)

    def _commit(self, name: str, transaction: Transaction, order: bytes | None) -> None:
        if order is None:
            transaction.commit()
            return
        with self._turn_of_key[order]:
            self._sent_log.committed(name, order)
            transaction.commit()

    def _say(
        self, transaction: Transaction | Stored, state: TransactionStatus, actor: str | None = None
    ) -> None:
        element = Element(0, transaction.offset, transaction.transaction_id)
        op = Op(state, GROUP, (element,), actor=actor)
        self._produce(op.to_record(_NAMES.op, transaction.queue))

    def _produce(self, record: Record, on_delivery: OnDelivery | None = None) -> None:
        self._raw.produce(
            record.topic,
            record.value,
            record.key,
            record.partition,
            headers=list(record.headers),
            on_delivery=on_delivery,
        )


def random_message(
    fate: Fate, chance: random.Random, topics: Sequence[str] = TOPICS, keys: int = KEYS
) -> Message:
    """Return a message, now and then one that a careless carrier would change."""
    headers: list[tuple[str, bytes | None]] = [(NAME, uuid.uuid4().hex.encode())]
    if chance.random() < 0.2:
        headers += [("tag", chance.randbytes(8)), ("tag", b""), ("tag", None), ("ключ", b"x")]
    key, ordering_key = _random_keys(chance, keys)
    body = None if chance.random() < 0.05 else chance.randbytes(chance.randrange(1_000))
    topic = chance.choice(topics)
    partition = chance.randrange(PARTITIONS) if chance.random() < _CHOOSES else None
    if fate is Fate.UNDELIVERABLE:
        topic, partition = chance.choice([(SMALL, None), (NOWHERE, None), (topic, PARTITIONS)])
        body = bytes(2 * SMALL_BYTES)
    if fate is Fate.NOT_PERMITTED:
        topic = FORBIDDEN
    # A conflict has no own immunity: its first end could be late, and its second in time after a
    # step of the clock.
    may_be_immune = fate is not Fate.CONFLICT
    is_immune = fate is Fate.TOO_LATE or (may_be_immune and chance.random() < _IS_IMMUNE)
    immunity = IMMUNITY_SECONDS if is_immune else None
    return Message(topic, body, key, headers, partition, immunity, ordering_key)


def _random_keys(chance: random.Random, keys: int) -> tuple[bytes | None, bytes | None]:
    """Return a key and an ordering key, most often one of a few customers'."""
    customer = b"customer-%d" % chance.randrange(keys)
    draw = chance.random()
    if draw < 0.2:
        return None, None
    if draw < 0.3:
        return None, customer
    if draw < 0.4:
        return chance.randbytes(chance.randrange(20)), None
    return customer, None


def partition_of(message: Message) -> int | None:
    """Return the partition that a message belongs in; None: anywhere."""
    if message.real_qid is not None or message.key is None:
        return message.real_qid
    return java_partition(message.key, PARTITIONS)


def name_of(headers: object) -> str:
    """Return the name by which the sent log knows a message; empty where it has none."""
    named = dict(headers or ()).get(NAME)  # type: ignore[call-overload]
    return named.decode() if named else ""


def main() -> None:
    """Send until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="The load of a fault campaign.")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--rate", type=float, required=True, help="transactions a second")
    parser.add_argument(
        "--also",
        action="append",
        metavar="TOPIC",
        default=[],
        help="a topic besides those",
    )
    parser.add_argument("--keys", type=int, default=KEYS, help="keys that order messages")
    parser.add_argument("--fast", type=float, default=0, help="share of fast commits, 0 to 1")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    sent_log = SentLog(Path(os.environ[SENT_LOG]))
    # The agent runs beside the load: it answers while the load is down. The producers let through
    # what does not fit: what becomes of that is looked at.
    producer_options: dict[str, Any] = {"checks_elsewhere": True, "check_real_topics": False}
    producer = partial(TransactionProducer, GROUP, options.bootstrap_servers, **producer_options)
    fast_options: dict[str, Any] = {"fast": options.fast > 0, "fast_immunity_ms": IMMUNITY_MS}
    with until_stopped(), producer() as ordinary, producer(**fast_options) as fast:
        print(f"ready: group={GROUP}", flush=True)
        raw = {"bootstrap.servers": options.bootstrap_servers, "enable.idempotence": True}
        producers = Producers(ordinary, fast, Producer({**raw, "logger": _log}))
        topics = [*TOPICS, *options.also]
        Load(producers, sent_log, options.rate, options.fast, topics, options.keys).run()


if __name__ == "__main__":
    main()
