"""That no right of a role is too many: without any one of them its work fails."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import msgpack
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AclBindingFilter  # type: ignore[attr-defined]
from protocol_topics import until
from secured import PRINCIPALS, SecuredBroker, Site

from resolver import Message, TransactionProducer, TransactionStatus
from resolver.acls import grant
from resolver.audit.topics import compacted, readable, stored
from resolver.delivery import Delivery
from resolver.delivery.packed import Decision
from resolver.delivery.packed import Message as Output
from resolver.delivery.targets import Targets
from resolver.errors import AuditError, TxResolverError
from resolver.kafka import admin_client
from resolver.oldest import oldest_records
from resolver.protocol import Half, HalfAt, check_record
from resolver.queues import read_queues
from resolver.rebuild import refuse_gaps
from resolver.records import Range, Records
from resolver.rights import Principals, Right, rights
from resolver.settings import Settings
from resolver.tables.catalogue import topics_pattern
from resolver.topics import ensure_topics

pytestmark = pytest.mark.slow

QUEUES = range(2)
#: Until a check must have come; and how long it is waited for where it must not come.
PATIENCE_SECONDS, WAIT_SECONDS = 60.0, 3.0


@pytest.fixture(scope="module")
def site(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Where each role has its rights, and each topic a record."""
    site = Site(secured, tmp_path_factory.mktemp("site"))
    done = site.create("--acls", *PRINCIPALS)
    assert done.exit_code == 0, done.output
    write(site, "admin", site.names.half, site.names.op)
    return site


def test_a_group_needs_each_of_its_rights(site: Site) -> None:
    needs_each(site, "orders", group_works)


def test_the_resolver_needs_each_of_its_rights(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is refused stays refused: it need not be tried for minutes.
    monkeypatch.setattr("resolver.delivery.delivery._CLAIMS", 1)
    monkeypatch.setattr("resolver.delivery.marker._TIMEOUT_SECONDS", 10.0)
    needs_each(site, "resolver", resolver_works)


def test_land_needs_each_of_its_rights(site: Site) -> None:
    needs_each(site, "land", land_works)


def test_an_operator_needs_each_of_its_rights(site: Site) -> None:
    needs_each(site, "operator", operator_works)


def test_an_auditor_needs_each_of_its_rights(site: Site) -> None:
    needs_each(site, "auditor", auditor_works)


def test_what_an_auditor_may_not_see_is_not_taken_for_deleted(site: Site) -> None:
    """Kafka leaves it out of its list of topics, like one that is not there."""
    real, gone = f"{site.real}.placed", f"{site.real}.gone"
    assert readable(site.settings("auditor"), [real, gone], [real, gone]).keys() == {real}
    stranger = site.settings("stranger")
    assert readable(stranger, [real, gone]) == {}
    with pytest.raises(AuditError, match=f"may not see topics .*{real}.*grant .* section 9"):
        readable(stranger, [real], [real])


def needs_each(site: Site, user: str, work: Callable[[Site, float], None]) -> None:
    """Take each right away in turn; the work is done before and after, and not meanwhile."""
    work(site, PATIENCE_SECONDS)
    needless = []
    for right in rights_of(site, user):
        with without(site, right), suppress(TxResolverError, KafkaException, AssertionError):
            work(site, WAIT_SECONDS)
            needless.append(right)
    assert needless == []
    work(site, PATIENCE_SECONDS)


def rights_of(site: Site, user: str) -> list[Right]:
    prefix = {"topic_prefix": site.names.prefix}
    roles = ("resolver", "land", "operator", "auditor")
    everybody = Principals(*(f"User:{role}" for role in roles))
    granted = rights(Settings.load(site.config, prefix, {}), everybody)
    return [right for right in granted if right.principal == f"User:{user}"]


@contextmanager
def without(site: Site, right: Right) -> Iterator[None]:
    """Take a right away for the length of the block."""
    one = right.binding()
    only = AclBindingFilter(
        one.restype, one.name, one.resource_pattern_type,
        one.principal, one.host, one.operation, one.permission_type,
    )  # fmt: skip
    admin = site.broker.admin
    assert admin.delete_acls([only])[only].result(30) == [one]
    until(lambda: not admin.describe_acls(only).result(30))
    try:
        yield
    finally:
        assert grant(admin, [right]) == {right}


def group_works(site: Site, seconds: float) -> None:
    """Store a half, end it, answer a check, and know how large records may be."""
    admin, user = site.broker.options("admin"), site.broker.options("orders")
    assert read_queues(user, site.names, 30) == read_queues(admin, site.names, 30)
    check(site)
    listener = Listener()
    with TransactionProducer(
        "orders",
        site.broker.bootstrap,
        listener,
        topic_prefix=site.names.prefix,
        kafka=site.broker.users.login("orders"),
    ) as producer:
        with producer.transaction(Message(f"{site.real}.placed", b"x")):
            pass
        assert listener.asked.wait(seconds)


class Listener:
    def __init__(self) -> None:
        self.asked = threading.Event()

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        self.asked.set()
        return TransactionStatus.COMMIT_MESSAGE


def check(site: Site) -> None:
    """Write a check, as the resolver would."""
    half = Half("id", "orders", f"{site.real}.placed", 7, None, b"x", [])
    at = HalfAt(0, 0, 7, half, half.to_record(site.names.half).headers)
    record = check_record(at, 1, site.names)
    producer = Producer(site.broker.options("admin"))
    producer.produce(record.topic, record.value, record.key, headers=record.headers)
    assert producer.flush(30) == 0


def resolver_works(site: Site, seconds: float) -> None:
    """Make topics, read, rebuild, take over, and write to all that it writes to."""
    names, settings = site.names, site.settings("resolver")
    ensure_topics(admin_client(settings), settings, [f"group-{uuid.uuid4().hex[:8]}"])
    refuse_gaps(settings)
    with closing(Records(settings)) as records:
        assert records.read(0, Range(0, 1), Range(0, 1))
    outputs = [names.resolution, names.discarded, names.quarantine, names.check("orders")]
    outputs += [f"{site.real}.placed", f"{site.real}-pay"]
    found = Targets(settings).look_up(set(outputs))
    assert found.keys() == set(outputs)
    assert all(target.max_bytes for target in found.values())
    before = ends(site, outputs)
    with closing(Delivery(settings, uuid.uuid4().hex)) as delivery:
        delivery.start(is_new=True, rebuild=True)
        delivery.give_up()  # with the first refusal
        delivery.deliver(0, batch(outputs))
    after = ends(site, outputs)
    assert all(after[topic] > before[topic] for topic in outputs)


def batch(topics: list[str]) -> list[bytes]:
    """Return decisions, packed: a record for each topic."""
    now_ms, half = time.time_ns() // 1_000_000, msgpack.packb([])
    outputs = [Output(topic, None, b"x", (), -1, now_ms) for topic in topics]
    return [msgpack.packb([Decision(output, None, half) for output in outputs])]


def ends(site: Site, topics: list[str]) -> dict[str, int]:
    """Return how many records each topic has, and had."""
    with closing(Consumer({**site.broker.options("admin"), "group.id": "ends"})) as consumer:
        known = consumer.list_topics(timeout=30).topics
        return {
            topic: sum(
                consumer.get_watermark_offsets(TopicPartition(topic, number), 30)[1]
                for number in known[topic].partitions
            )
            for topic in topics
        }


def land_works(site: Site, seconds: float) -> None:
    """Look at the beginning of everything that lands."""
    names = site.names
    topics = [names.half, names.op, names.resolution, names.discarded, names.quarantine]
    topics += [names.check("orders"), names.check("pay")]
    found = oldest_records(site.settings("land"), topics_pattern(names))
    assert found.keys() >= {(topic, queue) for topic in topics for queue in QUEUES}


def operator_works(site: Site, seconds: float) -> None:
    """Read what was given up and refused; write halves and ops."""
    names, settings = site.names, site.settings("operator")
    topics = [names.resolution, names.discarded, names.quarantine]
    found = oldest_records(settings, "|".join(topics))
    assert found.keys() == {(topic, queue) for topic in topics for queue in QUEUES}
    admin, user = site.broker.options("admin"), site.broker.options("operator")
    assert read_queues(user, names, 30) == read_queues(admin, names, 30)
    write(site, "operator", names.half, names.op)


def write(site: Site, user: str, *topics: str) -> None:
    producer, errors = Producer(site.broker.options(user)), []
    for topic in topics:
        producer.produce(
            topic, b"x", partition=0, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(30) == 0
    assert errors == [None] * len(topics)


def auditor_works(site: Site, seconds: float) -> None:
    """Compare the tables with what can be read of the topics."""
    names, settings = site.names, site.settings("auditor")
    real = [f"{site.real}.placed", f"{site.real}-pay"]
    topics = {names.resolution, names.discarded, names.quarantine, *real}
    assert readable(settings, topics, topics).keys() == topics
    assert compacted(settings, real) == set()
    assert stored(settings, [names.half, names.op]).keys() == {names.half, names.op}
