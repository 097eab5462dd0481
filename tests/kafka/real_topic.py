"""A real topic in a test: made, committed to as a worker decides, and read as a consumer does."""

from __future__ import annotations

import msgpack
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from resolver.protocol import Half, Names, Outcome, Resolution, Source, StoredHalf, commit_record
from resolver.protocol.record import Headers
from resolver.resolve.delivery.packed import DecisionRecords, as_output
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.reading import committed_records


def make_real(settings: Settings, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_SECONDS)
    # The broker learns of it a little later than the controller has made it.
    wait_until(lambda: topic in admin.list_topics(timeout=30).topics)
    return topic


def commit(
    topic: str,
    offset: int,
    stored_at_ms: int,
    names: Names,
    partition: int | None = None,
    key: bytes | None = None,
    headers: Headers | None = None,
) -> DecisionRecords:
    value, own = str(offset).encode(), headers or []
    half = Half(str(offset), "orders", topic, 0, key, value, own, partition)
    at = StoredHalf(0, offset, stored_at_ms, half, half.to_record(names.half, 0).headers)
    said = Resolution(
        transaction_id=str(offset), queue=0, offset=offset, outcome=Outcome.COMMIT,
        source=Source.END, group="orders", topic=topic, op_offset=0, checks=0, answered=0,
        born_at=0, stored_at=stored_at_ms, ended_at=0, decided_at=0, batch_id=0, query_id="q",
    )  # fmt: skip
    outcome = as_output(said.to_record(names.resolution))
    return DecisionRecords(as_output(commit_record(at)), outcome, msgpack.packb(at.all_headers))


def values(settings: Settings, topic: str, partition: int = 0) -> list[bytes | None]:
    """Return the committed values of a partition, in order, once no transaction is open in it."""
    options = {"bootstrap.servers": settings.bootstrap_servers}
    return [message.value() for message in committed_records(options, topic, [partition])]
