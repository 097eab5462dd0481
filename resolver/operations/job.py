"""Carries an operation out: chunk by chunk, each in one Kafka transaction with its claim.

docs/operations.md has the argument why nothing is done twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from ..errors import OperationError
from ..kafka.clients import client_config
from ..protocol import Claim, Names, Record
from ..protocol.partitioner import PARTITIONER
from ..settings import Settings
from ..views import HalfId, Ledger
from .claims import ClaimReader
from .failure import FOR_GOOD, explained
from .operation import Operation
from .records import records_of

logger = logging.getLogger(__name__)

#: Transactions that one Kafka transaction acts on. Their messages are in memory meanwhile.
CHUNK = 200
#: Time in ms after which Kafka ends a transaction whose writer is gone. Until then the resolver
#: waits at the records of the transaction.
_TRANSACTION_TIMEOUT_MS = 10_000
#: Time in seconds for each call, and for all attempts at a chunk.
_CALL_SECONDS, _PATIENCE_SECONDS = 30.0, 180.0
#: Time in seconds before a chunk that failed is tried again.
_PAUSE_SECONDS = 0.5
#: Errors of one record, or of records that were sent together: trying again does not help.
_OF_A_RECORD = (
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.POLICY_VIOLATION,
)


class Job:
    """An operation on its way; it can be begun again at any time, by anybody."""

    def __init__(self, operation: Operation, ledger: Ledger, settings: Settings) -> None:
        self._operation = operation
        self._ledger = ledger
        self._settings = settings
        self._names = Names(settings.topic_prefix)
        self._claims = ClaimReader(settings)
        #: Transactions of which Kafka does not take the record, whoever tries it.
        self.left_out: dict[HalfId, None] = {}

    def run(self, tell: Callable[[int], None]) -> int:
        """Act on the transactions that are left; return on how many the operation has acted.

        `tell` is told this number after each chunk. Raises `OperationError` if it can't go on.
        """
        try:
            self._claims.read()
            tell(self.hit)
            for chunk in self._chunks():
                self._write(chunk)
                self._refuse_to_go_on(chunk)
                tell(self.hit)
            return self.hit
        except KafkaException as error:
            remedy = f"Go on with `txresolver continue {self._operation.id}`"
            raise explained(error, self._how_far(), remedy) from error
        finally:
            self._claims.close()

    @property
    def hit(self) -> int:
        """On how many transactions the operation has acted, as far as the claims are read."""
        return len(self._claims.acted_on(self._operation.id))

    def _chunks(self) -> Iterator[Sequence[HalfId]]:
        halves = self._remaining(self._operation.halves)
        return (halves[first : first + CHUNK] for first in range(0, len(halves), CHUNK))

    def _remaining(self, halves: Sequence[HalfId]) -> list[HalfId]:
        """Return the halves that no claim has, and that were not left out."""
        done = self._claims.acted_on(self._operation.id)
        taken = self._claims.resumed if self._operation.is_once_for_all else {}
        return [
            half
            for half in halves
            if str(half) not in done and str(half) not in taken and half not in self.left_out
        ]

    def _write(self, chunk: Sequence[HalfId]) -> None:
        """Act on a chunk, or on what others leave of it."""
        give_up_at = time.monotonic() + _PATIENCE_SECONDS
        while remaining := self._remaining(chunk):
            try:
                self._try(remaining)
            except KafkaException as error:
                if error.args[0].code() in _OF_A_RECORD:
                    self._write_apart(remaining, error)
                    return
                if not _may_pass(error) or time.monotonic() > give_up_at:
                    raise
                logger.warning("%s; the chunk is tried again", error)
                time.sleep(_PAUSE_SECONDS)

    def _refuse_to_go_on(self, chunk: Sequence[HalfId]) -> None:
        """Raise if Kafka took no record of a chunk: it takes none of the others either."""
        if len(chunk) > 1 and all(half in self.left_out for half in chunk):
            raise OperationError(
                f"{self._how_far()}: Kafka refuses each of {len(chunk)} records",
                remedy="see the log for why, and begin again when the topic takes them",
            )

    def _write_apart(self, halves: Sequence[HalfId], error: KafkaException) -> None:
        """Act on smaller and smaller parts, so that only the record at fault is left out."""
        if len(halves) > 1:
            middle = len(halves) // 2
            self._write(halves[:middle])
            self._write(halves[middle:])
            return
        logger.warning("%s is left out: Kafka does not take its record: %s", halves[0], error)
        self.left_out[halves[0]] = None

    def _try(self, halves: Sequence[HalfId]) -> None:
        """Claim the halves, see whether the claim is the first, and act.

        A producer has one transaction, so a late request reaches no other (docs/operations.md).
        """
        records = records_of(self._operation, halves, self._ledger, self._names)
        writer = _Writer(self._settings, self._names.operator_id(self._operation.id))
        try:
            names = tuple(map(str, halves))
            claim = Claim(self._operation.id, self._operation.act, self._operation.actor, names)
            [offset] = writer.write([claim.to_record(self._names)])
            self._claims.read_to(offset)
            if len(self._remaining(halves)) == len(halves):
                writer.write(records)
                writer.commit()
                self._claims.read_to(offset + 1)
            else:
                writer.abort()
        finally:
            writer.close()

    def _how_far(self) -> str:
        done = f"{self.hit} of {len(self._operation.halves)} transactions"
        return f"operation {self._operation.id} has acted on {done}, and stopped"


class _Writer:
    """One Kafka transaction: committed as a whole, or aborted by the next of this id."""

    def __init__(self, settings: Settings, transactional_id: str) -> None:
        ours: dict[str, Any] = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
            # librdkafka takes neither for longer than the transaction, whatever [kafka] says.
            "socket.timeout.ms": _TRANSACTION_TIMEOUT_MS,
            "message.timeout.ms": _TRANSACTION_TIMEOUT_MS,
            "acks": "all",
            "partitioner": PARTITIONER,
            "allow.auto.create.topics": False,
            # The client sets no limit: each topic's own limit decides.
            "message.max.bytes": 1_000_000_000,
            "linger.ms": 5,
        }
        self._producer = Producer(client_config(settings, **ours))
        self._producer.init_transactions(_CALL_SECONDS)
        self._producer.begin_transaction()

    def write(self, records: Sequence[Record]) -> list[int]:
        """Write records; return their offsets when Kafka has all of them."""
        stored: dict[int, int] = {}
        errors: list[KafkaError] = []

        def taken(number: int) -> Callable[[KafkaError | None, Any], None]:
            def take(error: KafkaError | None, message: Any) -> None:
                if error is None and message.offset() is None:
                    # A retry met an earlier success, whose offset the broker does not know.
                    error = KafkaError(KafkaError.DUPLICATE_SEQUENCE_NUMBER)
                if error is not None:
                    errors.append(error)
                else:
                    stored[number] = message.offset()

            return take

        for number, record in enumerate(records):
            self._producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                on_delivery=taken(number),
                timestamp=record.timestamp_ms or 0,
                headers=[*record.headers],
            )
        unsent = self._producer.flush(_CALL_SECONDS)
        if errors or unsent:
            timed_out = KafkaError(KafkaError._TIMED_OUT, "Kafka did not take all records in time")
            raise KafkaException(errors[0] if errors else timed_out)
        return [stored[number] for number in range(len(records))]

    def commit(self) -> None:
        self._producer.commit_transaction(_CALL_SECONDS)

    def abort(self) -> None:
        """Take back what was written, where nothing has failed."""
        self._producer.abort_transaction(_CALL_SECONDS)

    def close(self) -> None:
        # Do not abort after a failure: librdkafka may hang there. The next `init_transactions` of
        # this id aborts, or Kafka's time-out.
        self._producer.purge(blocking=False)
        del self._producer


def _may_pass(error: KafkaException) -> bool:
    """Whether trying again may help.

    It does where the producer was fenced: its transaction timed out while it waited for another's.
    Two who go on with one operation fence each other too, and each chunk is done by one of them.
    """
    return error.args[0].code() not in FOR_GOOD
