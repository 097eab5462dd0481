"""Fast commits on a real broker: what consumers see, and what becomes of failures."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgpack
import pytest
from confluent_kafka import Message as KafkaMessage
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from resolver import (
    AsyncTransactionProducer,
    CommitNotConfirmed,
    Message,
    SendError,
    TransactionEnd,
    TransactionListener,
    TransactionProducer,
    TransactionStatus,
)
from resolver.broker import Broker
from resolver.kafka.topics import ensure_topics
from resolver.producer.fast.client import _STALL_SECONDS
from resolver.producer.producer_base import ProducerBase
from resolver.protocol import Names, StoredHalf, commit_record
from resolver.resolve.delivery import Delivery
from resolver.resolve.delivery.packed import DecisionRecords, as_output
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.secured import SecuredBroker
from tests.support.world import headers_of

from .fast_topics import FastTopics
from .kafka_proxy import ADD_PARTITIONS, END_TXN, Fate, KafkaProxy

DOCS = Path(__file__).parents[2] / "docs"
COMMIT = TransactionStatus.COMMIT_MESSAGE


class Orders(TransactionListener):
    """Commits, and says what it is told to a check."""

    def __init__(self, answer: TransactionStatus = COMMIT) -> None:
        self.answer = answer

    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionStatus:
        return COMMIT

    def execute_local_transaction_for_all(self, messages: Any, arg: Any) -> TransactionStatus:
        return COMMIT

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        return self.answer


@pytest.fixture
def topics(kafka: Broker, prefix: str) -> FastTopics:
    made = FastTopics(kafka.bootstrap, prefix)
    made.make()
    return made


def slow_commits(topics: FastTopics) -> list[str]:
    """Return the ids of ordinary commits, in order."""
    return [
        element.transaction_id
        for _, op in topics.ops()
        if op.state is COMMIT and not op.delivered
        for element in op.elements
    ]


def given_up(topics: FastTopics) -> list[str]:
    return [
        element.transaction_id
        for _, op in topics.ops()
        if op.gives_up_fast
        for element in op.elements
    ]


def fast_ids(topics: FastTopics) -> list[str | None]:
    return [at.half.fast_id for at in topics.halves()]


def deliver(topics: FastTopics, halves: list[StoredHalf]) -> None:
    """Deliver halves as the resolver does."""
    decisions = [
        DecisionRecords(as_output(commit_record(at)), None, msgpack.packb(at.all_headers))
        for at in halves
    ]
    with closing(Delivery(topics.settings, uuid.uuid4().hex)) as delivery:
        delivery.start(is_new=True)
        delivery.deliver(0, [msgpack.packb(decisions)])


def content(message: KafkaMessage) -> tuple[Any, ...]:
    """Return all of a record but its offset."""
    return (
        message.partition(), message.key(), message.value(), headers_of(message),
        message.timestamp(),
    )  # fmt: skip


def test_a_fast_message_is_what_the_resolver_would_deliver_to_the_last_byte(
    topics: FastTopics,
) -> None:
    keys = [b"\x00\xff", bytes(range(256)), b"customer-7"]
    headers = [("a", None), ("a", b""), ("", b"x"), ("é€", b"\x00\xff"), ("traceparent", b"00-1")]
    with topics.producer() as producer:
        for key in keys:
            for body in [None, b"", *keys]:
                assert producer.begin(Message(topics.real, body, key, headers)).commit(wait=True)
        for empty in [None, b""]:
            assert producer.begin(Message(topics.real, b"b", empty, headers, 2, 7)).commit(
                wait=True
            )
    fast = topics.read(topics.real)
    deliver(topics, topics.halves())
    both = topics.read(topics.real)
    assert len(fast) == 17 and len(both) == 34
    assert sorted(map(repr, map(content, both))) == sorted(2 * [repr(content(m)) for m in fast])


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no commit go the slow way because a busy machine takes its time."""
    for name in ("_STALL_SECONDS", "_COMMIT_SECONDS"):
        monkeypatch.setattr(f"resolver.producer.fast.client.{name}", 60.0)


@pytest.mark.gate
@pytest.mark.usefixtures("patient")
def test_message_and_op_appear_together(topics: FastTopics) -> None:
    with topics.producer(fast_immunity_ms=60_000) as producer:
        tx = producer.begin(topics.message(b"lamp", key=b"k"))
        assert topics.seen() == [] and topics.ops() == []
        assert tx.commit(wait=True) is True
        assert topics.seen() == [b"lamp"]
        [(queue, op)] = topics.ops()
    [element] = op.elements
    assert (queue, element.offset, element.transaction_id) == (
        tx.queue, tx.offset, tx.transaction_id,
    )  # fmt: skip
    assert (op.state, op.delivered, op.group, op.from_check) == (COMMIT, True, "orders", False)
    [at] = topics.halves()
    assert topics.names.is_fast_id(at.half.fast_id or "", "orders")


@pytest.mark.parametrize("way", ["rollback", "unknown"])
def test_other_ends_make_nothing_visible(topics: FastTopics, way: str) -> None:
    with topics.producer() as producer:
        getattr(producer.begin(topics.message()), way)()
    [(_, op)] = topics.ops()
    assert op.state.value.partition("_")[0].lower() == way
    assert (op.delivered, op.gives_up_fast) == (False, way != "rollback")
    assert topics.seen() == []


def test_many_threads_share_transactions_and_each_message_is_there_once(
    topics: FastTopics,
) -> None:
    ends: list[TransactionEnd] = []
    bodies = [b"%d" % number for number in range(400)]

    def send(body: bytes) -> bool:
        return producer.begin(topics.message(body)).commit(wait=True)

    with (
        topics.producer(listener=Orders(), end_hooks=[ends.append]) as producer,
        ThreadPoolExecutor(16) as threads,
    ):
        assert all(threads.map(send, bodies))
    assert sorted(topics.seen(), key=repr) == sorted(bodies, key=repr)
    delivered = topics.delivered()
    assert len(delivered) == len(topics.ops()) < 200
    # A transaction costs more with each partition: without keys one op partition is enough.
    assert len({queue for queue, _ in delivered}) == 1
    assert {end.state for end in ends} == {COMMIT}
    assert len(ends) == 400


def test_messages_of_one_key_stand_in_the_order_of_their_commits(topics: FastTopics) -> None:
    with topics.producer() as producer:
        begun = producer.begin_all(
            topics.message(b"%d" % number, key=b"k%d" % (number % 3)) for number in range(300)
        )
        begun.reverse()
        for tx in begun:
            tx.commit()
    seen = [(message.key(), int(message.value() or b"")) for message in topics.read(topics.real)]
    for key in (b"k0", b"k1", b"k2"):
        numbers = [number for of, number in seen if of == key]
        assert numbers == sorted(numbers, reverse=True) and len(numbers) == 100


def test_all_forms_of_a_transaction_are_fast(topics: FastTopics) -> None:
    with topics.producer(listener=Orders(), verify=True) as producer:
        producer.send_message_in_transaction(topics.message(b"1"))
        producer.send_messages_in_transaction([topics.message(b"2"), topics.message(b"3")])
        with producer.transaction(topics.message(b"4")) as tx:
            tx.commit(wait=True)
        with producer.transactions([topics.message(b"5")]):
            pass
        with pytest.raises(ZeroDivisionError), producer.transaction(topics.message(b"6")):
            raise ZeroDivisionError
    assert sorted(topics.seen()) == [b"1", b"2", b"3", b"4", b"5"]  # type: ignore[type-var]
    assert slow_commits(topics) == []


def test_a_commit_that_is_not_confirmed_is_not_made(topics: FastTopics) -> None:
    unknown = Orders(TransactionStatus.UNKNOWN)
    with topics.producer(listener=unknown, verify=True) as producer:
        with pytest.raises(CommitNotConfirmed):
            producer.begin(topics.message()).commit(wait=True)
    assert topics.seen() == []
    assert given_up(topics) == [at.half.transaction_id for at in topics.halves()]


def test_asyncio_has_the_same_calls(topics: FastTopics) -> None:
    async def run() -> list[bool]:
        async with AsyncTransactionProducer(
            "orders", topics.bootstrap, Orders(), topic_prefix=topics.names.prefix,
            checks_elsewhere=True, fast=True, verify=True,
        ) as producer:  # fmt: skip
            await asyncio.to_thread(topics.await_fast, producer)
            begun = await producer.begin_all(topics.message(b"%d" % n) for n in range(20))
            waited = await asyncio.gather(*(tx.commit(wait=True) for tx in begun))
            assert begun[0].commit() is False
            async with producer.transaction(topics.message(b"20")):
                pass
            await producer.send_message_in_transaction(topics.message(b"21"))
        return waited

    assert asyncio.run(run()) == [True] * 20
    assert sorted(int(body or b"") for body in topics.seen()) == list(range(22))
    assert slow_commits(topics) == []


#: Stores halves, and waits without end within the Kafka transaction of their commits.
SLEEPS = """
import sys, time
from confluent_kafka import Producer
from resolver import Message, TransactionProducer
from resolver.producer.fast import client

class Sleeps(Producer):
    def commit_transaction(self, *_):
        print("open", flush=True)
        time.sleep(1000)

client.Producer = Sleeps
producer = TransactionProducer(
    "orders", sys.argv[1], checks_elsewhere=True, topic_prefix=sys.argv[2], fast=True
)
producer._factory._fast_lane.wait_ready(100)
for tx in producer.begin_all([Message(sys.argv[3], b"lamp", b"k")] * 3):
    tx.commit()
time.sleep(1000)
"""


def test_nothing_is_visible_of_a_process_that_is_killed_in_the_middle(topics: FastTopics) -> None:
    arguments = [topics.bootstrap, topics.names.prefix, topics.real]
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPS, *arguments], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"open\n"
        process.send_signal(signal.SIGKILL)
    assert topics.visible(topics.real) == topics.visible(topics.names.op) == []
    assert topics.held_up(topics.names.op) > 0
    [fast_id] = set(fast_ids(topics))
    assert fast_id is not None
    topics.revoke(fast_id)
    assert topics.seen() == [] and topics.ops() == []


def test_a_second_process_of_the_group_has_its_own_id(topics: FastTopics) -> None:
    with topics.producer() as one, topics.producer() as other:
        for producer in (one, other, one, other):
            assert producer.begin(topics.message()).commit(wait=True)
    ids = fast_ids(topics)
    assert len(ids) == 4 and len(set(ids)) == 2 and None not in ids


def test_a_fenced_producer_commits_the_slow_way_and_then_by_a_new_id(topics: FastTopics) -> None:
    with topics.producer() as producer:
        first, second, later = (producer.begin(topics.message(b"%d" % n)) for n in (1, 2, 3))
        [fast_id] = set(fast_ids(topics))
        assert fast_id is not None
        topics.revoke(fast_id)
        assert first.commit(wait=True) is False
        assert second.commit(wait=True) is False
        topics.await_fast(producer)
        new = producer.begin(topics.message(b"4"))
        assert new.commit(wait=True) is True
        assert later.commit(wait=True) is False
    assert topics.seen() == [b"4"]
    old = [first.transaction_id, second.transaction_id, later.transaction_id]
    assert slow_commits(topics) == old
    assert given_up(topics) == old[1:]
    assert len(set(fast_ids(topics))) == 2


#: The child ends as a process does that knows nothing of the producer; then the parent goes on.
FORKS = """
import os, sys
from resolver import Message, SendError, TransactionProducer
producer = TransactionProducer(
    "orders", sys.argv[1], checks_elsewhere=True, topic_prefix=sys.argv[2], fast=True
)
producer._factory._fast_lane.wait_ready(100)
message = Message(sys.argv[3], b"lamp")
begun = producer.begin(message)
child = os.fork()
if child == 0:
    for use in (lambda: producer.begin(message), lambda: begun.commit(wait=True)):
        try:
            use()
        except SendError as error:
            print("refused", flush=True)
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
print(begun.commit(wait=True), producer.begin(message).commit(wait=True))
"""


def test_a_fork_commits_nothing_and_the_parent_goes_on(topics: FastTopics) -> None:
    arguments = [topics.bootstrap, topics.names.prefix, topics.real]
    done = subprocess.run(
        [sys.executable, "-c", FORKS, *arguments],
        capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.stdout.split() == ["refused", "refused", "True", "True"]
    assert topics.seen() == [b"lamp"] * 2
    assert len(set(fast_ids(topics))) == 1


def test_a_close_commits_what_was_committed_and_leaves_what_is_open(topics: FastTopics) -> None:
    with topics.producer(fast_linger_ms=60_000) as producer:
        begun = [producer.begin(topics.message(b"%d" % number)) for number in range(4)]
        for tx in begun[:3]:
            tx.commit()
    assert sorted(topics.seen()) == [b"0", b"1", b"2"]  # type: ignore[type-var]
    with pytest.raises(SendError, match="the producer is closed"):
        begun[3].commit(wait=True)


NEVER_CLOSED = """
import sys
from resolver import Message, TransactionProducer
producer = TransactionProducer(
    "orders", sys.argv[1], checks_elsewhere=True, topic_prefix=sys.argv[2], fast=True,
    fast_linger_ms=60_000
)
producer._factory._fast_lane.wait_ready(100)
for number in range(3):
    producer.begin(Message(sys.argv[3], b"%d" % number)).commit()
"""


def test_a_producer_that_nobody_closed_commits_at_the_end_of_its_process(
    topics: FastTopics,
) -> None:
    arguments = [topics.bootstrap, topics.names.prefix, topics.real]
    subprocess.run(
        [sys.executable, "-c", NEVER_CLOSED, *arguments], check=True, timeout=PATIENCE_SECONDS
    )
    assert sorted(topics.seen()) == [b"0", b"1", b"2"]  # type: ignore[type-var]


def test_its_thread_is_named_and_ends_with_it(topics: FastTopics) -> None:
    def named() -> set[str]:
        return {t.name for t in threading.enumerate() if t.name.startswith("txresolver")}

    with topics.producer():
        assert "txresolver-fast-orders" in named()
    wait_until(lambda: not named())


def test_a_topic_that_refuses_a_message_makes_only_itself_slow(
    topics: FastTopics, caplog: pytest.LogCaptureFixture
) -> None:
    small = f"small-{uuid.uuid4().hex[:8]}"
    topics.make_real(small, 1, **{"max.message.bytes": "2000"})
    with topics.producer(check_real_topics=False) as producer:
        ordinary, large = producer.begin_all(
            [topics.message(b"before"), Message(small, b"x" * 5_000)]
        )
        ordinary.commit()
        assert large.commit(wait=True) is False
        wait_until(lambda: topics.held_up(topics.real) == 0)
        topics.await_fast(producer)
        assert producer.begin(topics.message(b"after")).commit(wait=True) is True
        assert producer.begin(Message(small, b"x")).commit(wait=True) is False
    ids = {at.half.body: at.half.fast_id for at in topics.halves()}
    assert ids[b"x"] is None and ids[b"after"] is not None
    assert b"after" in topics.seen()
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len([line for line in told if f"to {small} are slow for a minute" in line]) == 1


@pytest.mark.parametrize("what", ["topic", "partition"])
def test_what_is_not_there_makes_only_itself_slow(topics: FastTopics, what: str) -> None:
    missing = f"missing-{uuid.uuid4().hex[:8]}"
    message = Message(missing, b"") if what == "topic" else topics.message(real_qid=99)
    good = f"good-{uuid.uuid4().hex[:8]}"
    topics.make_real(good, 1)
    with topics.producer(check_real_topics=False) as producer:
        assert producer.begin(message).commit(wait=True) is False
        topics.await_fast(producer)
        assert producer.begin(Message(good, b"")).commit(wait=True) is True


def test_a_slow_local_transaction_gives_the_fast_lane_up_and_others_stay_fast(
    topics: FastTopics,
) -> None:
    with topics.producer(fast_immunity_ms=1_000) as producer:
        slow = producer.begin(topics.message(b"slow"))
        patient = producer.begin(topics.message(b"patient", check_immunity_seconds=100))
        wait_until(lambda: given_up(topics) == [slow.transaction_id])
        assert slow.commit(wait=True) is False
        assert patient.commit(wait=True) is True
    assert slow_commits(topics) == given_up(topics) == [slow.transaction_id]
    assert topics.seen() == [b"patient"]
    assert len(set(fast_ids(topics))) == 1


class Network:
    """A way to the broker that a test disturbs."""

    def __init__(self, kafka: Broker) -> None:
        self.judge: Callable[[int, bytes], Fate] = lambda request, frame: Fate.FORWARD
        self.requests: list[tuple[int, bytes]] = []
        self.proxy = KafkaProxy(kafka.bootstrap, self._judge)

    def _judge(self, request: int, frame: bytes) -> Fate:
        self.requests.append((request, frame))
        return self.judge(request, frame)


@pytest.fixture
def network(kafka: Broker) -> Iterator[Network]:
    network = Network(kafka)
    yield network
    network.proxy.close()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    "fate", [Fate.LOSE_ANSWER, Fate.LOSE_REQUEST, pytest.param(Fate.HOLD, marks=pytest.mark.gate)]
)
def test_after_an_end_that_may_have_been_sent_twice_the_id_is_given_up(
    topics: FastTopics, network: Network, fate: Fate
) -> None:
    fates = iter([fate])
    with topics.producer(server=network.proxy.address, fast_immunity_ms=60_000) as producer:
        network.judge = lambda request, _: (
            next(fates, Fate.FORWARD) if request == END_TXN else Fate.FORWARD
        )
        assert producer.begin(topics.message(b"1")).commit(wait=True) is True
        wait_until(lambda: producer.begin(topics.message(b"2")).commit(wait=True))
    for held in network.proxy.held:
        held.let_go()
    assert sum(body == b"1" for body in topics.seen()) == 1
    assert len(set(fast_ids(topics)) - {None}) >= 2


def test_a_commit_whose_outcome_is_not_known_is_sent_the_slow_way_too(
    topics: FastTopics, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resolver reads the delivered op first: the message is there once."""
    monkeypatch.setattr("resolver.producer.fast.client._COMMIT_SECONDS", 1.0)
    answers = iter([Fate.LOSE_ANSWER])

    def judge(request: int, _: bytes) -> Fate:
        return next(answers, Fate.LOSE_REQUEST) if request == END_TXN else Fate.FORWARD

    with topics.producer(server=network.proxy.address) as producer:
        network.judge = judge
        tx = producer.begin(topics.message(b"1", key=b"k"))
        assert tx.commit(wait=True) is False
        network.judge = lambda request, _: Fate.FORWARD
    assert topics.seen() == [b"1"]
    assert [op.delivered for _, op in topics.ops()] == [True, False]
    assert given_up(topics) == []


def test_a_coordinator_that_does_not_answer_makes_no_commit_slower_to_return(
    topics: FastTopics, network: Network
) -> None:
    with topics.producer(server=network.proxy.address) as producer:
        network.judge = lambda request, _: (
            Fate.HOLD_SILENTLY if request == ADD_PARTITIONS else Fate.FORWARD
        )
        begun = [producer.begin(topics.message()) for _ in range(10)]
        started = time.monotonic()
        for tx in begun:
            tx.commit()
        assert time.monotonic() - started < _STALL_SECONDS  # as long as one that waited would take
    assert sorted(slow_commits(topics)) == sorted(tx.transaction_id for tx in begun)


def test_without_fast_the_bytes_are_what_they_were(topics: FastTopics, network: Network) -> None:
    with topics.producer(server=network.proxy.address, listener=Orders()) as producer:
        producer.send_message_in_transaction(topics.message())
    assert {ADD_PARTITIONS, END_TXN} <= {request for request, _ in network.requests}
    assert any(b"FAST" in frame for _, frame in network.requests)
    network.requests.clear()
    with TransactionProducer(
        "orders", network.proxy.address, Orders(), topic_prefix=topics.names.prefix,
        checks_elsewhere=True,
    ) as producer:  # fmt: skip
        tx = producer.begin(topics.message(b"slow", key=b"k"))
        assert tx.commit(wait=True) is False
        producer.send_message_in_transaction(topics.message())
    assert not {ADD_PARTITIONS, END_TXN} & {request for request, _ in network.requests}
    assert not any(b"fast" in frame.lower() for _, frame in network.requests)
    [at] = [at for at in topics.halves() if at.half.body == b"slow"]
    assert [name for name, _ in at.all_headers] == [
        "TRAN_MSG", "UNIQ_KEY", "PGROUP", "REAL_TOPIC", "BORN_TIMESTAMP",
    ]  # fmt: skip
    op = (
        f'{{"state":"COMMIT_MESSAGE","group":"orders","offsets":[{tx.offset}],'
        f'"transaction_ids":["{tx.transaction_id}"],"from_check":false,"remark":null}}'
    )
    assert op.encode() in [message.value() for message in topics.read(topics.names.op)]


def allow(secured: SecuredBroker, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    """Let a user do something with all resources whose names begin so."""
    bindings = [
        AclBinding(
            kind, name, ResourcePatternType.PREFIXED, "User:fast", "*", operation,
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]  # fmt: skip
    for granted in secured.admin.create_acls(bindings).values():
        granted.result(PATIENCE_SECONDS)


def test_each_missing_right_is_named_and_commits_are_slow_until_it_is_there(
    secured: SecuredBroker, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    secured.users.add(secured.admin, "fast")
    names, real = Names(prefix), f"real-{uuid.uuid4().hex[:8]}"
    ensure_topics(secured.admin, secured.settings("admin", prefix), [])
    secured.make_topics(real)
    allow(secured, ResourceType.TOPIC, names.half, AclOperation.WRITE)
    allow(secured, ResourceType.TOPIC, names.op, AclOperation.WRITE)
    user = AdminClient({**secured.options("fast")})
    wait_until(lambda: {names.half, names.op} <= user.list_topics(timeout=30).topics.keys())

    def told() -> str:
        return " ".join(record.getMessage() for record in caplog.records)

    with TransactionProducer(
        "orders", secured.bootstrap, topic_prefix=prefix, checks_elsewhere=True, fast=True,
        kafka=secured.users.login("fast"),
    ) as producer:  # fmt: skip

        def commit() -> bool:
            return producer.begin(Message(real, b"")).commit(wait=True)

        assert commit() is False
        ids = names.fast_id("orders", "")
        assert f"grant the group Write on transactional ids that begin with {ids}" in told()
        allow(secured, ResourceType.TRANSACTIONAL_ID, ids, AclOperation.WRITE)
        wait_until(lambda: commit() or "Write on the topics of its messages" in told())
        assert f"to {real} are slow for a minute" in told()
    allow(secured, ResourceType.TOPIC, real, AclOperation.WRITE)
    with TransactionProducer(
        "orders", secured.bootstrap, topic_prefix=prefix, checks_elsewhere=True, fast=True,
        kafka=secured.users.login("fast"),
    ) as producer:  # fmt: skip
        wait_until(commit)


def test_a_lazy_producer_is_fast_once_it_is_connected(topics: FastTopics) -> None:
    with topics.producer(connect="lazy") as producer:
        assert producer.begin(topics.message()).commit(wait=True) is True


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Callable[[int | None], Broker]]:
    """Start a broker of one home, again on the port that it had."""
    with ExitStack() as stack:
        yield lambda port: stack.enter_context(Broker(tmp_path, port))


def test_it_is_fast_again_after_its_broker_was_away(
    restartable: Callable[[int | None], Broker], prefix: str
) -> None:
    broker = restartable(None)
    topics = FastTopics(broker.bootstrap, prefix)
    topics.make()
    with topics.producer(kafka={"reconnect.backoff.max.ms": "500"}) as producer:
        assert producer.begin(topics.message(b"1")).commit(wait=True)
        open_one = producer.begin(topics.message(b"2", check_immunity_seconds=1000))
        broker.stop()
        open_one.commit()
        restartable(int(broker.bootstrap.rpartition(":")[2]))

        def is_fast() -> bool:
            return producer.begin(topics.message(b"3")).commit(wait=True)

        wait_until(is_fast)
    seen = topics.seen()
    assert {b"1", b"3"} <= set(seen)
    assert seen.count(b"2") + slow_commits(topics).count(open_one.transaction_id) >= 1


def test_the_example_of_the_page_on_fast_commits_runs(
    topics: FastTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    [example] = re.findall(r"```python\n(.*?)```", (DOCS / "fast.md").read_text(), re.DOTALL)
    defaults = ProducerBase.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "topic_prefix", topics.names.prefix)
    placed: list[str] = []
    program = {
        "TransactionProducer": TransactionProducer,
        "Message": Message,
        "SERVERS": topics.bootstrap,
        "listener": Orders(),
        "place": lambda item, _id: placed.append(item),
    }
    exec(compile(example, "fast.md", "exec"), program)  # noqa: S102
    assert placed == ["lamp"]
    assert program["is_visible"] is True


def test_names_of_ids_are_legal_for_any_group(kafka: Broker, prefix: str) -> None:
    topics = FastTopics(kafka.bootstrap, prefix)
    topics.make()
    group = "g" * 200
    with TransactionProducer(
        group, topics.bootstrap, topic_prefix=prefix, checks_elsewhere=True, fast=True
    ) as producer:
        topics.await_fast(producer)
        assert producer.begin(topics.message()).commit(wait=True)
    [at] = topics.halves()
    assert Names(prefix).is_fast_id(at.half.fast_id or "", group)


def test_a_message_of_the_largest_size_has_room_for_its_id(topics: FastTopics) -> None:
    with topics.producer() as producer:
        with pytest.raises(SendError, match="at most") as refused:
            producer.begin(topics.message(b"x" * 1_048_588))
        over = int(str(refused.value).split(" takes ")[1].split()[0]) - 1_048_588
        body = b"x" * (1_048_588 - over)
        assert producer.begin(topics.message(body)).commit(wait=True)
    assert topics.seen() == [body]
