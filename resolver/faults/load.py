"""The load: `python -m resolver.faults.load`, transactions of every fate at a steady rate.

Its listener, `resolver.faults.load:Answers`, is what `txresolver agent` answers checks with.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path

from confluent_kafka import Producer

from ..cli.signals import until_stopped
from ..errors import SendError
from ..listener import TransactionListener
from ..message import Message
from ..producer import TransactionProducer
from ..protocol import Element, Names, Op, Record, TransactionStatus
from ..transaction import Transaction
from .ledger import COMMIT, ROLLBACK, LoadLedger, Sent, digest
from .partitioner import java_partition

#: Names the ledger's file.
LEDGER = "FAULTS_LEDGER"
GROUP = "faults"
TOPICS = ("faults.one", "faults.two")
PARTITIONS = 4
#: Takes messages that are smaller than some; and one that is not there.
SMALL, SMALL_BYTES = "faults.small", 1_500
NOWHERE = "faults.nowhere"
#: The header that says which message of the ledger one is.
NAME = "name"
#: Of a half that has an immunity of its own.
IMMUNITY_SECONDS = 3
_THREADS = 32
#: A transaction has begun and is not decided for so long: a kill finds some there.
_THINKING_SECONDS = (0.0, 0.1)
_PAUSE_SECONDS = 0.5

_NAMES = Names()
_log = logging.getLogger(__name__)


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
    OPERATOR = "commits, and an operator says so"
    CONFLICT = "commits, and says the opposite after it"


#: Per cent.
SHARES = {
    Fate.COMMIT: 62,
    Fate.ROLLBACK: 11,
    Fate.COMMIT_SILENTLY: 6,
    Fate.ROLLBACK_SILENTLY: 4,
    Fate.COMMIT_LATE: 3,
    Fate.TOO_LATE: 2,
    Fate.NEVER: 3,
    Fate.UNKNOWN: 3,
    Fate.UNDELIVERABLE: 3,
    Fate.OPERATOR: 1,
    Fate.CONFLICT: 2,
}
#: Those that nobody but a check, or nothing at all, ends.
UNDECIDED = frozenset({Fate.NEVER.name, Fate.UNKNOWN.name})
#: Those that are decided and not told: a check ends them.
SILENT = frozenset({Fate.COMMIT_SILENTLY.name, Fate.ROLLBACK_SILENTLY.name, Fate.COMMIT_LATE.name})
#: How often something malformed comes with a transaction.
_MALFORMED = 0.01
#: How often a message names its partition, and how often its half has an immunity of its own.
_CHOOSES = 0.05
_IS_IMMUNE = 0.05
#: By so much an end is too late, at most.
_LATE_SECONDS = 0.3
_SAID = {
    COMMIT: TransactionStatus.COMMIT_MESSAGE,
    ROLLBACK: TransactionStatus.ROLLBACK_MESSAGE,
}


class Answers(TransactionListener):
    """Answers from the ledger; what was not decided is rolled back here and now."""

    def __init__(self) -> None:
        self._ledger = LoadLedger(Path(os.environ[LEDGER]))

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        """Settle it: what is decided here, a slow local transaction can't decide otherwise."""
        name = name_of(message.headers)
        fate = self._ledger.fate(name)
        if fate == Fate.UNKNOWN.name or (fate == Fate.COMMIT_LATE.name and message.check_times < 2):
            return TransactionStatus.UNKNOWN
        return _SAID[self._ledger.decide(name, ROLLBACK)]


class Load:
    """Sends transactions, several at once; `raw` sends what no producer of ours would."""

    def __init__(
        self, producer: TransactionProducer, raw: Producer, ledger: LoadLedger, rate: float
    ) -> None:
        self._producer = producer
        self._raw = raw
        self._ledger = ledger
        self._rate = rate
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
                pool.submit(self._run, fate, random_message(fate, chance))
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
        self._ledger.sent(Sent(name, fate.name, content, partition_of(message)))
        transaction = self._producer.begin(message)
        self._ledger.stored(name, transaction.message.half_offset)
        time.sleep(random.uniform(*_THINKING_SECONDS))  # noqa: S311
        self._end(fate, name, transaction)

    def _end(self, fate: Fate, name: str, transaction: Transaction) -> None:
        if fate.name in UNDECIDED:
            return
        wanted = ROLLBACK if fate in (Fate.ROLLBACK, Fate.ROLLBACK_SILENTLY) else COMMIT
        outcome = self._ledger.decide(name, wanted)
        if fate.name in SILENT:
            return
        if fate is Fate.TOO_LATE:
            time.sleep(IMMUNITY_SECONDS + random.uniform(0, _LATE_SECONDS))  # noqa: S311
        if outcome == ROLLBACK:
            transaction.rollback()
        elif fate is Fate.OPERATOR:
            self._say(transaction, TransactionStatus.COMMIT_MESSAGE, actor="campaign")
        elif fate is Fate.CONFLICT:  # by one producer: so they stand in this order
            self._say(transaction, TransactionStatus.COMMIT_MESSAGE)
            self._say(transaction, TransactionStatus.ROLLBACK_MESSAGE)
        else:
            transaction.commit()

    def _say(
        self, transaction: Transaction, state: TransactionStatus, actor: str | None = None
    ) -> None:
        element = Element(0, transaction.offset, transaction.transaction_id)
        op = Op(state, GROUP, (element,), actor=actor)
        self._produce(op.to_record(_NAMES.op, transaction.queue))

    def _produce(self, record: Record) -> None:
        self._raw.produce(
            record.topic,
            record.value,
            record.key,
            record.partition,
            headers=list(record.headers),
        )


def random_message(fate: Fate, chance: random.Random) -> Message:
    """Return a message, now and then one that a careless carrier would change."""
    headers: list[tuple[str, bytes | None]] = [(NAME, uuid.uuid4().hex.encode())]
    if chance.random() < 0.2:
        headers += [("tag", chance.randbytes(8)), ("tag", b""), ("tag", None), ("ключ", b"x")]
    key = None if chance.random() < 0.2 else chance.randbytes(chance.randrange(20))
    body = None if chance.random() < 0.05 else chance.randbytes(chance.randrange(1_000))
    topic = chance.choice(TOPICS)
    partition = chance.randrange(PARTITIONS) if chance.random() < _CHOOSES else None
    if fate is Fate.UNDELIVERABLE:
        topic, partition = chance.choice([(SMALL, None), (NOWHERE, None), (topic, PARTITIONS)])
        body = bytes(2 * SMALL_BYTES)
    # Whose first end is then too late would end by its second, were that stored by another clock.
    may_be_immune = fate is not Fate.CONFLICT
    is_immune = fate is Fate.TOO_LATE or (may_be_immune and chance.random() < _IS_IMMUNE)
    return Message(topic, body, key, headers, partition, IMMUNITY_SECONDS if is_immune else None)


def partition_of(message: Message) -> int | None:
    """Return the partition that a message belongs in; None: anywhere."""
    if message.real_qid is not None or message.key is None:
        return message.real_qid
    return java_partition(message.key, PARTITIONS)


def name_of(headers: object) -> str:
    """Return the name by which the ledger knows a message; empty where it has none."""
    named = dict(headers or ()).get(NAME)  # type: ignore[call-overload]
    return named.decode() if named else ""


def main() -> None:
    """Send until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="The load of a fault campaign.")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--rate", type=float, required=True, help="transactions a second")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    ledger = LoadLedger(Path(os.environ[LEDGER]))
    with (
        until_stopped(),
        # The agent runs beside the load: it answers while the load is down.
        TransactionProducer(GROUP, given.bootstrap_servers, checks_elsewhere=True) as producer,
    ):
        print(f"ready: group={GROUP}", flush=True)
        raw = {"bootstrap.servers": given.bootstrap_servers, "enable.idempotence": True}
        Load(producer, Producer({**raw, "logger": _log}), ledger, given.rate).run()


if __name__ == "__main__":
    main()
