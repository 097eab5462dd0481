"""That no right of a role is too many: without any one of them its work fails."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timezone

import msgpack
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AclBindingFilter, AdminClient  # type: ignore[attr-defined]

from resolver import Message, TransactionProducer, TransactionStatus
from resolver.audit.topics import compacted, readable, stored
from resolver.errors import AuditError, TxResolverError
from resolver.kafka.acls import grant
from resolver.kafka.clients import admin_client
from resolver.kafka.oldest import oldest_records
from resolver.kafka.rights import Principals, Right, rights
from resolver.kafka.targets import describe
from resolver.kafka.topics import ensure_topics
from resolver.ledger.catalogue import topics_pattern
from resolver.operations import Job, Operation
from resolver.producer.topic_limits import read_limits
from resolver.protocol import Act, Half, Names, StoredHalf, check_record
from resolver.resolve.delivery import Delivery
from resolver.resolve.delivery.known_targets import KnownTargets
from resolver.resolve.delivery.lane import Lane
from resolver.resolve.delivery.packed import DecisionRecords, Output, unpack
from resolver.resolve.delivery.visible_records import VisibleRecordsReader
from resolver.resolve.fences import FenceTimer
from resolver.resolve.reader import Range, RangeReader
from resolver.resolve.rebuild import refuse_gaps
from resolver.resolve.revoker import Revoker
from resolver.settings import Settings
from resolver.views import HalfId, Ledger
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.secured import PRINCIPALS, SecuredBroker, Site
from tests.support.tables import half, outcome, write_tables

from .fast_producer import FastProducer
from .real_topic import commit

QUEUES = range(2)
#: Until a check must have come; and how long it is waited for where it must not come.
WAIT_SECONDS = 3.0


@pytest.fixture(scope="module")
def site(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Where each role has its rights, and each topic a record."""
    site = Site(secured, tmp_path_factory.mktemp("site"))
    done = site.create("--acls", *PRINCIPALS)
    assert done.exit_code == 0, done.output
    write(site, "admin", site.names.half, site.names.op)
    with closing(Delivery(site.settings("resolver"), uuid.uuid4().hex)) as delivery:
        delivery.start(is_new=True)  # publishes the policy
    return site


def test_a_group_needs_each_of_its_rights(site: Site) -> None:
    needs_each(site, "orders", group_works)


def test_a_fast_group_needs_each_of_its_rights(site: Site) -> None:
    needs_each(site, "pay", fast_group_works)


def test_the_resolver_needs_each_of_its_rights(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is refused stays refused: it need not be tried for minutes.
    monkeypatch.setattr("resolver.resolve.delivery.delivery._CLAIMS", 1)
    monkeypatch.setattr("resolver.resolve.delivery.marker_group._TIMEOUT_SECONDS", 10.0)
    needs_each(site, "resolver", resolver_works)


def test_land_needs_each_of_its_rights(site: Site) -> None:
    needs_each(site, "land", land_works)


def test_an_operator_needs_each_of_its_rights(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is refused stays refused: it need not be tried for minutes.
    monkeypatch.setattr("resolver.operations.job._PATIENCE_SECONDS", 5.0)
    monkeypatch.setattr("resolver.operations.job._CALL_SECONDS", 10.0)
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
    assert admin.delete_acls([only])[only].result(PATIENCE_SECONDS) == [one]
    wait_until(lambda: not admin.describe_acls(only).result(PATIENCE_SECONDS))
    try:
        yield
    finally:
        assert grant(admin, [right]) == {right}


def group_works(site: Site, seconds: float, group: str = "orders", topic: str = ".placed") -> None:
    """Store a half, end it, answer a check, and know the policy and how large records may be."""
    admin, user = site.broker.options("admin"), site.broker.options(group)
    assert read_limits(user, site.names, 30) == read_limits(admin, site.names, 30)
    real = f"{site.real}{topic}"
    ours, theirs = (describe(AdminClient({**login}), [real], 30) for login in (user, admin))
    assert real in ours.targets
    assert ours.targets[real].max_bytes == theirs.targets[real].max_bytes
    check(site, group, real)
    listener = Listener()
    with TransactionProducer(
        group,
        site.broker.bootstrap,
        listener,
        topic_prefix=site.names.prefix,
        kafka=site.broker.users.login(group),
    ) as producer:
        assert producer._factory._policy.policy is not None
        with producer.transaction(Message(real, b"x")):
            pass
        assert listener.asked.wait(seconds)


def fast_group_works(site: Site, seconds: float) -> None:
    """Do all that a group does, and deliver a commit too."""
    group_works(site, seconds, "pay", "-pay")
    producer = FastProducer(site.broker.options("pay"), site.names, "pay")
    producer.commit(producer.half(f"{site.real}-pay"))


class Listener:
    def __init__(self) -> None:
        self.asked = threading.Event()

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        self.asked.set()
        return TransactionStatus.COMMIT_MESSAGE


def check(site: Site, group: str, real: str) -> None:
    """Write a check, as the resolver would."""
    half = Half("id", group, real, 7, None, b"x", [])
    at = StoredHalf(0, 0, 7, half, half.to_record(site.names.half).headers)
    record = check_record(at, 1, site.names)
    producer = Producer(site.broker.options("admin"))
    producer.produce(record.topic, record.value, record.key, headers=list(record.headers))
    assert producer.flush(PATIENCE_SECONDS) == 0


def resolver_works(site: Site, seconds: float) -> None:
    """Make topics, read, rebuild, take over, revoke, and write to all that it writes to."""
    names, settings = site.names, site.settings("resolver")
    revoke(site, settings, seconds)
    ensure_topics(admin_client(settings), settings, [f"group-{uuid.uuid4().hex[:8]}"])
    refuse_gaps(settings)
    with closing(RangeReader(settings)) as records:
        assert records.read(0, Range(0, 1), Range(0, 1))
    outputs = [names.resolution, names.discarded, names.quarantine, names.check("orders")]
    outputs += [names.parked]
    outputs += [f"{site.real}.placed", f"{site.real}-pay"]
    found = KnownTargets(settings).look_up(set(outputs))
    assert found.keys() == set(outputs)
    assert all(target.max_bytes for target in found.values())
    before = ends(site, [*outputs, names.policy])
    with closing(Delivery(settings, uuid.uuid4().hex)) as delivery:
        delivery.start(is_new=True, rebuild=True)
        delivery.give_up()  # with the first refusal
        written = batch(names, outputs)
        delivery.deliver(0, written)
        write_fences(site, settings, delivery, seconds)
    after = ends(site, [*outputs, names.policy])
    assert all(after[topic] > before[topic] for topic in after)
    decisions = [decision for part in written for decision in unpack(part)]
    visible = VisibleRecordsReader(settings, KnownTargets(settings)).of(0, decisions, 10)
    assert {own[0] for own in visible.identities} == {*outputs}


def revoke(site: Site, settings: Settings, seconds: float) -> None:
    op = site.names.op
    before = ends(site, [op])[op]
    revoker = Revoker(settings, "secret", lambda error: None)
    revoker.start()
    try:
        revoker.want({0: [site.names.fast_id("pay", uuid.uuid4().hex)]})
        wait_until(lambda: ends(site, [op])[op] > before, seconds)
    finally:
        revoker.stop()


def write_fences(site: Site, settings: Settings, delivery: Delivery, seconds: float) -> None:
    topics = [site.names.half, site.names.op]
    before = ends(site, topics)
    timer = FenceTimer(settings, delivery, "secret", lambda error: None)
    timer.set(0, 0, fence_ops=1)
    timer.start()
    try:
        wait_until(lambda: all(ends(site, topics)[t] > before[t] for t in topics), seconds)
    finally:
        timer.stop()


def batch(names: Names, topics: list[str]) -> list[bytes]:
    """Return decisions, packed: a record for each topic, which no other is like."""
    now_ms, own = time.time_ns() // 1_000_000, uuid.uuid4()
    marks = ("UNIQ_KEY", "TRANSACTION_CHECK_TIMES", "HALF_OFFSET", "REASON", "SOURCE")
    headers = tuple((name, own.bytes) for name in marks)
    decisions = []
    for topic in topics:
        if topic == names.parked:  # of the half that is there: the next rebuild drops it
            decisions += parked(commit("parked", 0, now_ms, names), names)
        elif topic.startswith(names.prefix):
            decisions.append(DecisionRecords(Output(topic, None, b"x", headers, -1, now_ms)))
        else:
            decisions.append(commit(topic, own.int >> 66, now_ms, names))
    return [msgpack.packb(decisions)]


def parked(decision: DecisionRecords, names: Names) -> list[DecisionRecords]:
    """Return a commit as it is written while its topic is parked."""
    # No broker answers there: a lane that is new needs to know no end.
    lane = Lane(Settings(bootstrap_servers="127.0.0.1:1", topic_prefix=names.prefix))
    lane.park(["parked"], "for a test")
    return lane.divert([decision], None)


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
    assert (names.parked, 0) in found


def operator_works(site: Site, seconds: float) -> None:
    """Read what was given up and refused; write halves and ops; bring a message back."""
    names, settings = site.names, site.settings("operator")
    topics = [names.resolution, names.discarded, names.quarantine]
    found = oldest_records(settings, "|".join(topics))
    assert found.keys() == {(topic, queue) for topic in topics for queue in QUEUES}
    assert oldest_records(settings, names.parked).keys() == {(names.parked, 0)}
    admin, user = site.broker.options("admin"), site.broker.options("operator")
    assert read_limits(user, names, 30) == read_limits(admin, names, 30)
    write(site, "operator", names.half, names.op)
    resume(settings, site)


def resume(settings: Settings, site: Site) -> None:
    """Bring back a message that was given up: each time another one."""
    tables = site.config.parent / f"tables-{uuid.uuid4().hex[:8]}"
    offset = time.time_ns()
    headers = [{"key": "UNIQ_KEY", "value": b"id"}]
    write_tables(
        tables,
        half=[half(0, offset, key=b"k", value=b"x", headers=headers)],
        resolution=[outcome(0, offset, "DISCARD")],
    )
    chosen = [HalfId(0, offset)]
    now = datetime.now(timezone.utc)
    operation = Operation.begin(Act.RESUME, "", "ada", "a test", chosen, now)
    assert Job(operation, Ledger(tables=tables), settings).run(lambda hit: None) == 1


def write(site: Site, user: str, *topics: str) -> None:
    producer, errors = Producer(site.broker.options(user)), []
    for topic in topics:
        producer.produce(
            topic, b"x", partition=0, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert errors == [None] * len(topics)


def auditor_works(site: Site, seconds: float) -> None:
    """Compare the tables with what can be read of the topics."""
    names, settings = site.names, site.settings("auditor")
    real = [f"{site.real}.placed", f"{site.real}-pay"]
    topics = {names.resolution, names.discarded, names.quarantine, names.parked, *real}
    assert readable(settings, topics, topics).keys() == topics
    assert compacted(settings, real) == set()
    assert stored(settings, [names.half, names.op]).keys() == {names.half, names.op}
