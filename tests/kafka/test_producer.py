"""The producer on a real broker: half, local transaction, op."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from resolver import (
    HalfNotAcknowledged,
    ListenerError,
    Message,
    MessageRefused,
    SendError,
    TransactionEnd,
    TransactionListener,
    TransactionProducer,
    TransactionSendResult,
    TransactionStatus,
)
from resolver.broker import Broker
from resolver.protocol import HalfId, decode_half
from tests.support.patience import SEND_TIMEOUT_MS, wait_until
from tests.support.world import headers_of

from .protocol_topics import REAL, ProtocolTopics

COMMIT, ROLLBACK, UNKNOWN = (
    TransactionStatus.COMMIT_MESSAGE,
    TransactionStatus.ROLLBACK_MESSAGE,
    TransactionStatus.UNKNOWN,
)
MESSAGE = Message("orders.placed", b"body", b"key", [("a", b"1")])
WITHOUT_KEY = Message("orders.placed", b"body")


class Local(TransactionListener):
    """Runs the function that it is given as `arg`."""

    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionStatus:
        result: TransactionStatus = arg(message) if callable(arg) else arg
        return result

    def execute_local_transaction_for_all(
        self, messages: Sequence[Message], arg: Any
    ) -> TransactionStatus:
        result: TransactionStatus = arg(messages)
        return result

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        return UNKNOWN


@pytest.fixture
def topics(kafka: Broker, prefix: str) -> ProtocolTopics:
    made = ProtocolTopics(kafka.bootstrap, prefix)
    made.make()
    return made


def producer_of(topics: ProtocolTopics, **options: Any) -> TransactionProducer:
    given: dict[str, Any] = {
        "listener": Local(),
        "checks_elsewhere": True,
        "send_timeout_ms": SEND_TIMEOUT_MS,
        **options,
    }
    return TransactionProducer(
        "orders", topics.bootstrap, topic_prefix=topics.names.prefix, **given
    )


def end_of(topics: ProtocolTopics, result: TransactionSendResult) -> list[str]:
    return [
        op.state.value
        for queue, op in topics.ops()
        for element in op.elements
        if (queue, element.offset) == (result.queue, result.offset)
        and element.transaction_id == result.transaction_id
    ]


def test_the_half_is_stored_before_the_local_transaction_and_the_op_after(
    topics: ProtocolTopics,
) -> None:
    seen: list[tuple[Message, int, int]] = []

    def local(message: Message) -> TransactionStatus:
        seen.append((message, len(topics.read(topics.names.half)), len(topics.ops())))
        return COMMIT

    with producer_of(topics) as producer:
        result = producer.send_message_in_transaction(MESSAGE, local)
    [(message, halves, ops)] = seen
    assert (halves, ops) == (1, 0)
    assert message == MESSAGE
    assert (message.transaction_id, message.half_offset) == (
        result.transaction_id,
        result.half_offset,
    )
    [stored] = topics.read(topics.names.half)
    half = decode_half(stored.key(), stored.value(), headers_of(stored), topics.names.prefix)
    assert (half.transaction_id, half.group) == (result.transaction_id, "orders")
    assert (half.topic, half.key, half.body) == ("orders.placed", b"key", b"body")
    assert (stored.partition(), stored.offset()) == (result.queue, result.offset)
    assert end_of(topics, result) == ["COMMIT_MESSAGE"]


@pytest.mark.parametrize("state", list(TransactionStatus))
def test_the_op_says_what_the_local_transaction_said(
    topics: ProtocolTopics, state: TransactionStatus
) -> None:
    with producer_of(topics) as producer:
        result = producer.send_message_in_transaction(MESSAGE, state)
    assert result.local_transaction_state is state
    assert end_of(topics, result) == [state.value]


def test_any_bytes_arrive_as_they_are(topics: ProtocolTopics) -> None:
    odd = [None, b"", b"\x00\xff", bytes(range(256))]
    headers = [("a", None), ("a", b""), ("", b"x"), ("é€", b"\x00\xff"), ("a", b"again")]
    sent = {}
    with producer_of(topics) as producer:
        for key in odd:
            for body in odd:
                message = Message(REAL, body, key, headers, 1, 7)
                result = producer.send_message_in_transaction(message, COMMIT)
                sent[result.transaction_id] = message
    for stored in topics.read(topics.names.half):
        half = decode_half(stored.key(), stored.value(), headers_of(stored))
        assert Message.of_half(half, HalfId(0, 0)) == sent.pop(half.transaction_id)
    assert not sent


def raises(error: BaseException) -> Callable[[Message], TransactionStatus]:
    def local(message: Message) -> TransactionStatus:
        raise error

    return local


@pytest.mark.parametrize(
    ("arg", "remark"), [(None, "NoneType"), ("COMMIT", "str"), (raises(OSError("disk")), "OSError")]
)
def test_a_local_transaction_that_says_nothing_usable_is_unknown_with_a_remark(
    topics: ProtocolTopics, arg: Any, remark: str
) -> None:
    with producer_of(topics) as producer:
        result = producer.send_message_in_transaction(MESSAGE, arg)
    assert result.local_transaction_state is UNKNOWN
    assert remark in (result.remark or "")
    [(_, op)] = topics.ops()
    assert (op.state, op.remark) == (UNKNOWN, result.remark)


def test_an_interrupted_local_transaction_is_unknown_and_the_interrupt_goes_on(
    topics: ProtocolTopics,
) -> None:
    with producer_of(topics) as producer, pytest.raises(KeyboardInterrupt):
        producer.send_message_in_transaction(MESSAGE, raises(KeyboardInterrupt()))
    assert [state for _, state in topics.ends()] == ["UNKNOWN"]


def test_a_block_commits_on_its_normal_end(topics: ProtocolTopics) -> None:
    with producer_of(topics) as producer:
        with producer.transaction(MESSAGE) as tx:
            assert tx.state is None
        assert tx.state is COMMIT
    assert end_of(topics, tx.result()) == ["COMMIT_MESSAGE"]


@pytest.mark.gate
@pytest.mark.parametrize("error", [ZeroDivisionError, TimeoutError, KeyboardInterrupt])
def test_an_exception_in_a_block_is_unknown_and_goes_on(
    topics: ProtocolTopics, error: type[BaseException]
) -> None:
    """The database may have committed before it came."""
    with producer_of(topics) as producer:
        with pytest.raises(error), producer.transaction(MESSAGE) as tx:
            raise error
    assert end_of(topics, tx.result()) == ["UNKNOWN"]
    [(_, op)] = topics.ops()
    assert op.remark == tx.result().remark == f"the block raised {error.__name__}"


@pytest.mark.parametrize("way", ["commit", "rollback", "unknown"])
def test_what_was_ended_inside_a_block_stays(topics: ProtocolTopics, way: str) -> None:
    with producer_of(topics) as producer:
        with pytest.raises(ZeroDivisionError), producer.transaction(MESSAGE) as tx:
            getattr(tx, way)()
            getattr(tx, way)()
            raise ZeroDivisionError
        if way != "commit":
            with pytest.raises(SendError, match=r"was ended with .* already"):
                tx.commit()
    assert [state.partition("_")[0].lower() for state in end_of(topics, tx.result())] == [way]


@pytest.mark.gate
def test_many_messages_of_one_local_transaction_end_together(topics: ProtocolTopics) -> None:
    messages = [Message("orders.placed", bytes([number])) for number in range(100)]
    with producer_of(topics) as producer:
        with producer.transactions(messages) as good:
            assert [tx.message for tx in good] == messages
        with pytest.raises(ZeroDivisionError), producer.transactions(messages) as bad:
            raise ZeroDivisionError
    ends = {
        (queue, element.offset): op.state for queue, op in topics.ops() for element in op.elements
    }
    assert {ends[tx.queue, tx.offset] for tx in good} == {COMMIT}
    assert {ends[tx.queue, tx.offset] for tx in bad} == {UNKNOWN}
    assert len({tx.transaction_id for tx in good + bad}) == len(ends) == 200
    assert {tx.queue for tx in good} == {0, 1}


def test_many_messages_are_sent_with_one_local_transaction_of_the_listener(
    topics: ProtocolTopics,
) -> None:
    messages = [Message("orders.placed", bytes([number])) for number in range(40)]
    seen: list[tuple[list[Message], int]] = []

    def rolls_back(given: list[Message]) -> TransactionStatus:
        seen.append((given, len(topics.read(topics.names.half))))
        return ROLLBACK

    with producer_of(topics) as producer:
        results = producer.send_messages_in_transaction(messages, rolls_back)
        failed = producer.send_messages_in_transaction([MESSAGE], raises(OSError("disk")))
        assert producer.send_messages_in_transaction([], lambda given: COMMIT) == []
    [(given, halves)] = seen
    assert (given, halves) == (messages, 40)
    assert [message.transaction_id for message in given] == [r.transaction_id for r in results]
    assert {r.local_transaction_state for r in results} == {ROLLBACK}
    assert [end_of(topics, r) for r in results] == [["ROLLBACK_MESSAGE"]] * 40
    assert [(r.local_transaction_state, end_of(topics, r)) for r in failed] == [
        (UNKNOWN, ["UNKNOWN"])
    ]


def test_more_messages_than_the_local_queue_takes_are_sent_all_the_same(
    topics: ProtocolTopics,
) -> None:
    with producer_of(topics, kafka={"queue.buffering.max.messages": "7"}) as producer:
        with producer.transactions([MESSAGE] * 100) as begun:
            pass
    assert len(topics.read(topics.names.half)) == len(topics.ends()) == len(begun) == 100


def test_one_refused_message_keeps_all_of_a_block_from_being_stored(
    topics: ProtocolTopics,
) -> None:
    with producer_of(topics) as producer:
        delayed = Message("orders.placed", b"", headers=[("DELAY", b"3")])
        with (
            pytest.raises(MessageRefused, match="delay"),
            producer.transactions([MESSAGE, delayed]),
        ):
            pytest.fail("the block ran")
    assert topics.read(topics.names.half) == []


def test_the_largest_message_is_stored_and_a_larger_one_refused(topics: ProtocolTopics) -> None:
    ran: list[Message] = []

    def local(message: Message) -> TransactionStatus:
        ran.append(message)
        return COMMIT

    with producer_of(topics) as producer:
        with pytest.raises(MessageRefused, match="at most") as refused:
            producer.send_message_in_transaction(Message(REAL, b"x" * 1_048_588), local)
        over = int(str(refused.value).split(" takes ")[1].split()[0]) - 1_048_588
        assert not ran
        producer.send_message_in_transaction(Message(REAL, b"x" * (1_048_588 - over)), local)
    assert len(ran) == len(topics.read(topics.names.half)) == 1


def test_many_threads_send_at_once_and_their_ops_are_packed(topics: ProtocolTopics) -> None:
    with producer_of(topics, op_linger_ms=200) as producer, ThreadPoolExecutor(16) as threads:
        results = list(
            threads.map(
                lambda state: producer.send_message_in_transaction(WITHOUT_KEY, state),
                [COMMIT, ROLLBACK] * 200,
            )
        )
    ops = topics.ops()
    ends = {
        (queue, e.offset): (op.state, e.transaction_id) for queue, op in ops for e in op.elements
    }
    assert ends == {
        (r.queue, r.offset): (r.local_transaction_state, r.transaction_id) for r in results
    }
    assert len(ops) < 200
    assert {r.queue for r in results} == {0, 1}


def test_hooks_see_the_end_and_can_not_harm_it(topics: ProtocolTopics) -> None:
    ends: list[TransactionEnd] = []

    def fails(end: TransactionEnd) -> None:
        raise RuntimeError("a hook")

    with producer_of(topics, end_hooks=[fails, ends.append]) as producer:
        result = producer.send_message_in_transaction(MESSAGE, COMMIT)
    [end] = ends
    assert (end.queue, end.offset, end.state) == (result.queue, result.offset, COMMIT)
    assert (end.transaction_id, end.group, end.from_check) == (
        result.transaction_id,
        "orders",
        False,
    )
    assert end.message == MESSAGE
    assert end_of(topics, result) == ["COMMIT_MESSAGE"]


def test_without_a_local_transaction_in_the_listener_sending_is_refused(
    topics: ProtocolTopics,
) -> None:
    class OnlyChecks(TransactionListener):
        def check_local_transaction(self, message: Message) -> TransactionStatus:
            return UNKNOWN

    for listener in (None, OnlyChecks()):
        with producer_of(topics, listener=listener) as producer:
            with pytest.raises(ListenerError, match="no execute_local_transaction;"):
                producer.send_message_in_transaction(MESSAGE)
            with pytest.raises(ListenerError, match="no execute_local_transaction_for_all;"):
                producer.send_messages_in_transaction([MESSAGE])
            with producer.transaction(MESSAGE):
                pass
    assert len(topics.ends()) == 2


def test_missing_topics_are_named_with_the_remedy(kafka: Broker, prefix: str) -> None:
    with pytest.raises(SendError, match=f"{prefix}half does not exist.*topics create"):
        producer_of(ProtocolTopics(kafka.bootstrap, prefix))


def test_a_broker_that_does_not_answer_is_named(prefix: str) -> None:
    nowhere = ProtocolTopics("127.0.0.1:1", prefix)
    with pytest.raises(SendError, match=r"no broker of 127\.0\.0\.1:1 answered within 0\.5 s"):
        producer_of(nowhere, send_timeout_ms=500)


def test_a_half_may_be_waited_for_without_end(topics: ProtocolTopics) -> None:
    with producer_of(topics) as producer:
        result = producer.send_message_in_transaction(MESSAGE, COMMIT, timeout=float("inf"))
    assert end_of(topics, result) == ["COMMIT_MESSAGE"]


def test_a_closed_producer_says_so(topics: ProtocolTopics) -> None:
    producer = producer_of(topics)
    producer.close()
    with pytest.raises(SendError, match="is closed"):
        producer.send_message_in_transaction(MESSAGE, COMMIT)
    producer.close()


@pytest.mark.gate
def test_a_fork_of_a_producer_says_what_to_do(topics: ProtocolTopics) -> None:
    with producer_of(topics) as producer:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                producer.begin(MESSAGE, timeout=1)
                os.write(writing, b"sent")
            except SendError as error:
                os.write(writing, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert b"make one after the fork" in os.read(reading, 1000)
        assert producer.send_message_in_transaction(MESSAGE, COMMIT).offset == 0


#: Ops wait for a minute: only a close sends them before.
NEVER_CLOSED = """
import sys
from resolver import Message, TransactionProducer
producer = TransactionProducer(
    "orders", sys.argv[1], checks_elsewhere=True, topic_prefix=sys.argv[2], op_linger_ms=60_000
)
producer.begin(Message("orders.placed", b"lamp")).commit()
"""


@pytest.mark.gate
def test_a_producer_that_nobody_closed_closes_at_the_end_of_its_process(
    topics: ProtocolTopics,
) -> None:
    arguments = [topics.bootstrap, topics.names.prefix]
    subprocess.run([sys.executable, "-c", NEVER_CLOSED, *arguments], check=True, timeout=120)
    assert [state for _, state in topics.ends()] == ["COMMIT_MESSAGE"]


def test_its_threads_are_named_and_end_with_it(topics: ProtocolTopics) -> None:
    before = set(threading.enumerate())

    def named() -> set[str]:
        new = set(threading.enumerate()) - before
        return {thread.name for thread in new if thread.name.startswith("txresolver")}

    with producer_of(topics, checks_elsewhere=False):
        assert {"txresolver-acks-orders", "txresolver-ops-orders", "txresolver-agent-orders"} <= (
            named()
        )
    wait_until(lambda: not named())


@pytest.mark.gate
def test_a_half_that_nobody_acknowledges_does_not_run_and_is_rolled_back_when_it_turns_up(
    kafka: Broker, prefix: str
) -> None:
    topics = ProtocolTopics(kafka.bootstrap, prefix)
    topics.make()
    ran: list[Message] = []

    def local(message: Message) -> TransactionStatus:
        ran.append(message)
        return COMMIT

    with producer_of(topics, kafka={"linger.ms": "30000"}) as producer:
        with pytest.raises(HalfNotAcknowledged, match="did not run") as failed:
            producer.send_message_in_transaction(MESSAGE, local, timeout=0.2)
        assert isinstance(failed.value.__cause__, KafkaException)
        with pytest.raises(HalfNotAcknowledged), producer.transaction(MESSAGE, timeout=0.2):
            pytest.fail("the block ran")
    assert not ran
    ends = wait_until(topics.ends)
    assert len(topics.read(topics.names.half)) == 2
    assert [state for _, state in ends] == ["ROLLBACK_MESSAGE"] * 2


def test_a_hook_that_exits_does_not_end_the_acknowledgements(topics: ProtocolTopics) -> None:
    def exits(end: TransactionEnd) -> None:
        raise SystemExit(1)

    with producer_of(topics, kafka={"linger.ms": "1000"}, end_hooks=[exits]) as producer:
        with pytest.raises(HalfNotAcknowledged):
            producer.begin(MESSAGE, timeout=0.1)
        wait_until(topics.ends)  # rolled back by the thread of the acknowledgements
        assert producer.begin(MESSAGE, timeout=60).state is None


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Callable[[int | None], Broker]]:
    """Start a broker of one home, again on the port that it had."""
    with ExitStack() as stack:
        yield lambda port: stack.enter_context(Broker(tmp_path, port))


def test_it_goes_on_after_its_broker_was_away(
    restartable: Callable[[int | None], Broker], prefix: str
) -> None:
    broker = restartable(None)
    topics = ProtocolTopics(broker.bootstrap, prefix)
    topics.make()
    producer = producer_of(topics, kafka={"reconnect.backoff.max.ms": "500"})
    # librdkafka gives up for good on a producer with this option, once a message timed out.
    strict = {"enable.gapless.guarantee": "true", "message.timeout.ms": "1500"}
    given_up = producer_of(topics, kafka={"reconnect.backoff.max.ms": "500", **strict})
    for each in (producer, given_up):
        each.send_message_in_transaction(MESSAGE, COMMIT)
    wait_until(lambda: len(topics.ends()) == 2)
    broker.stop()
    with pytest.raises(HalfNotAcknowledged):
        producer.send_message_in_transaction(MESSAGE, COMMIT, timeout=1)
    with pytest.raises(HalfNotAcknowledged):
        given_up.send_message_in_transaction(MESSAGE, COMMIT, timeout=10)
    restartable(int(broker.bootstrap.rpartition(":")[2]))
    for each in (producer, given_up):
        result = each.send_message_in_transaction(MESSAGE, COMMIT, timeout=60)
        each.close()
        assert end_of(topics, result) == ["COMMIT_MESSAGE"]
    # The half that turned up after its sender had given up:
    assert [state for _, state in topics.ends()].count("ROLLBACK_MESSAGE") == 1
