"""The agent on a real broker: checks written as the resolver does, answers read back."""

from __future__ import annotations

import logging
import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from resolver import (
    AgentHung,
    Message,
    TransactionAgent,
    TransactionEnd,
    TransactionListener,
    TransactionProducer,
    TransactionStatus,
)
from resolver.broker import Broker
from resolver.protocol import Record, fitted
from tests.support.patience import PATIENCE_SECONDS, wait_until

from .protocol_topics import ProtocolTopics, group_of
from .raw_header import write_with_header

COMMIT, ROLLBACK, UNKNOWN = (
    TransactionStatus.COMMIT_MESSAGE,
    TransactionStatus.ROLLBACK_MESSAGE,
    TransactionStatus.UNKNOWN,
)


class Answers(TransactionListener):
    """Answers what a function says, and remembers what it was asked."""

    def __init__(self, says: Callable[[Message], Any] = lambda message: COMMIT) -> None:
        self.asked: list[Message] = []
        self._says = says

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        self.asked.append(message)
        answer: TransactionStatus = self._says(message)
        return answer


class Gate(Answers):
    """Answers when it is opened."""

    def __init__(self, says: Callable[[Message], Any] = lambda message: COMMIT) -> None:
        super().__init__(self._wait)
        self.open = threading.Event()
        self._then = says

    def _wait(self, message: Message) -> Any:
        assert self.open.wait(PATIENCE_SECONDS)
        return self._then(message)


@pytest.fixture
def topics(kafka: Broker, prefix: str) -> ProtocolTopics:
    made = ProtocolTopics(kafka.bootstrap, prefix)
    made.make(group_of(made))
    return made


@contextmanager
def agent_of(
    topics: ProtocolTopics, listener: TransactionListener, ready: bool = True, **options: Any
) -> Iterator[TransactionAgent]:
    agent = TransactionAgent(
        group_of(topics),
        topics.bootstrap,
        listener,
        topic_prefix=topics.names.prefix,
        **options,
    )
    with agent:
        assert not ready or agent.wait_ready(PATIENCE_SECONDS)
        yield agent


@pytest.mark.gate
def test_a_check_is_answered_in_its_queue(
    topics: ProtocolTopics, caplog: pytest.LogCaptureFixture
) -> None:
    """Answers that commit nothing are logged."""
    caplog.set_level(logging.INFO, "resolver")
    said = {"id-0-17": COMMIT, "id-1-18": ROLLBACK, "id-1-19": UNKNOWN}
    listener = Answers(lambda message: said[message.transaction_id])
    with agent_of(topics, listener):
        topics.check(group_of(topics), 17, queue=0)
        topics.check(group_of(topics), 18, queue=1)
        topics.check(group_of(topics), 19, queue=1)
        wait_until(lambda: len(topics.ends()) == 3)
    answers = {
        (queue, element.offset, element.transaction_id): (op.state, op.from_check, op.group)
        for queue, op in topics.ops()
        for element in op.elements
    }
    group = group_of(topics)
    logged = [message for message in caplog.messages if "is answered" in message]
    assert sorted(message.partition(" of group")[0] for message in logged) == [
        "check 1 of transaction 'id-1-18'",
        "check 1 of transaction 'id-1-19'",
    ]
    assert {message.rpartition(" ")[2] for message in logged} == {ROLLBACK.value, UNKNOWN.value}
    assert answers == {
        (0, 17, "id-0-17"): (COMMIT, True, group),
        (1, 18, "id-1-18"): (ROLLBACK, True, group),
        (1, 19, "id-1-19"): (UNKNOWN, True, group),
    }


def test_the_listener_sees_the_message_as_it_was_sent(topics: ProtocolTopics) -> None:
    listener = Answers()
    with agent_of(topics, listener):
        topics.check(group_of(topics), 17, times=3, queue=1)
        wait_until(lambda: listener.asked)
    [message] = listener.asked
    assert message == Message("orders.placed", b"body", b"k", [("a", b"1")])
    assert (message.transaction_id, message.half_offset) == ("id-1-17", "1:17")
    assert (message.check_times, message.born_at_ms) == (3, 7)
    assert not message.truncated


def test_the_listener_sees_that_a_message_was_cut(topics: ProtocolTopics) -> None:
    listener = Answers()
    record = topics.record_of_check(group_of(topics), 17)._replace(value=bytes(100_000))
    with agent_of(topics, listener):
        topics.write(fitted(record, 50_000))
        wait_until(lambda: listener.asked)
    [message] = listener.asked
    assert message.truncated
    assert len(message.body or b"") < 50_000


@pytest.mark.parametrize(
    "says", [None, "COMMIT_MESSAGE", KeyError("order"), SystemExit(1), CancelledError()]
)
def test_an_exception_or_no_status_is_unknown_with_a_remark_and_no_answer(
    topics: ProtocolTopics, says: Any
) -> None:
    def fails(message: Message) -> Any:
        if isinstance(says, BaseException):
            raise says
        return says

    with agent_of(topics, Answers(fails), check_thread_pool_max_size=1):
        topics.check(group_of(topics), 17)
        wait_until(topics.ends)
        topics.check(group_of(topics), 18)
        wait_until(lambda: len(topics.ends()) == 2)
        wait_until(lambda: topics.committed(group_of(topics)) == 2)
    ops = [op for _, op in topics.ops()]
    assert {(op.state, type(says).__name__ in (op.remark or "")) for op in ops} == {(UNKNOWN, True)}
    assert not any(op.from_check for op in ops)  # it would count as one of the last answers


def test_an_agent_announces_itself_in_each_queue_when_it_answers(topics: ProtocolTopics) -> None:
    """The resolver then asks again about halves of which a former member used up the checks."""
    topics.check(group_of(topics), 17)
    says: list[Any] = [RuntimeError("the database is away")]

    def answer(message: Message) -> TransactionStatus:
        if says:
            raise says[0]
        return COMMIT

    with agent_of(topics, Answers(answer)):
        wait_until(lambda: topics.committed(group_of(topics)) == 1)
        assert topics.announced() == []
        says.clear()
        topics.check(group_of(topics), 18)
        wait_until(lambda: topics.announced() == [0, 1])
        assert topics.ends() == [(17, "UNKNOWN"), (18, "COMMIT_MESSAGE")]
    with agent_of(topics, Answers()):
        wait_until(lambda: topics.announced() == [0, 0, 1, 1])


def test_what_is_no_check_is_passed_over_and_its_neighbours_answered(
    topics: ProtocolTopics, caplog: pytest.LogCaptureFixture
) -> None:
    group, topic = group_of(topics), topics.names.check(group_of(topics))
    topics.write(
        Record(topic, b"id", b"", [], 0),
        Record(topic, None, None, [("TRAN_MSG", b"false")], 0),
    )
    topics.check(group, 17, queue=2)  # there are two queues
    topics.write(topics.record_of_check("another", 18)._replace(topic=topic))
    topics.check(group, 19)
    with agent_of(topics, Answers()):
        wait_until(topics.ends)
        wait_until(lambda: topics.committed(group) == 5)
    assert topics.ends() == [(19, "COMMIT_MESSAGE")]
    assert caplog.text.count("is passed over") == 4


def test_a_check_with_a_header_name_that_is_no_text_is_passed_over(
    topics: ProtocolTopics, caplog: pytest.LogCaptureFixture
) -> None:
    group, topic = group_of(topics), topics.names.check(group_of(topics))
    # After many others: the interpreter treats a frequent call otherwise.
    topics.write(*(topics.record_of_check(group, offset, partition=0) for offset in range(300)))
    write_with_header(topics.bootstrap, topic, b"\xff\xfe")
    topics.check(group, 300)
    with agent_of(topics, Answers()):
        wait_until(lambda: topics.committed(group) == 302)
    assert {offset for offset, _ in topics.ends()} == set(range(301))
    assert "is passed over: a header's name is no UTF-8" in caplog.text


def test_of_several_waiting_checks_for_one_half_only_the_newest_is_asked(
    topics: ProtocolTopics,
) -> None:
    group = group_of(topics)
    gate = Gate()
    with agent_of(topics, gate, check_thread_pool_max_size=1) as agent:
        topics.check(group, 1)
        wait_until(lambda: gate.asked)
        for times in (1, 2, 3):
            topics.check(group, 17, times)
        topics.check(group, 18)
        wait_until(lambda: topics_read(topics) == 5 and agent.held == 3)
        gate.open.set()
        wait_until(lambda: topics.committed(group) == 5)
    asked = [(message.half_offset, message.check_times) for message in gate.asked]
    assert sorted(asked) == [("0:1", 1), ("0:17", 3), ("0:18", 1)]
    assert sorted(topics.ends()) == [(offset, "COMMIT_MESSAGE") for offset in (1, 17, 18)]


def topics_read(topics: ProtocolTopics) -> int:
    return len(topics.read(topics.names.check(group_of(topics))))


def test_no_more_checks_are_held_than_allowed(topics: ProtocolTopics) -> None:
    group, most = group_of(topics), []
    gate = Gate()
    with agent_of(topics, gate, check_request_hold_max=10, check_thread_pool_max_size=2) as agent:
        for offset in range(60):
            topics.check(group, offset)
        wait_until(lambda: agent.held == 10)

        def answered() -> bool:
            most.append(agent.held)
            return len(topics.ends()) == 60

        gate.open.set()
        wait_until(answered)
    assert max(most) <= 10
    assert sorted(offset for offset, _ in topics.ends()) == list(range(60))
    assert len(gate.asked) == 60


def test_an_offset_is_committed_only_when_it_and_all_before_it_are_answered(
    topics: ProtocolTopics,
) -> None:
    group = group_of(topics)
    gate = threading.Event()

    def first_waits(message: Message) -> TransactionStatus:
        assert message.half_offset != "0:1" or gate.wait(PATIENCE_SECONDS)
        return COMMIT

    topics.write(*(topics.record_of_check(group, offset, partition=1) for offset in (1, 2, 3)))
    with agent_of(topics, Answers(first_waits)) as agent:
        wait_until(lambda: len(topics.ends()) == 2)
        agent.stop(timeout=0.5)  # the first is still being asked
        assert topics.committed(group) == 0
        gate.set()
        assert agent.join(PATIENCE_SECONDS)
    assert topics.committed(group) == 3


def test_a_stopped_agent_finishes_what_it_asks_and_leaves_the_rest(
    topics: ProtocolTopics,
) -> None:
    group = group_of(topics)
    gate = Gate()
    with agent_of(topics, gate, check_thread_pool_max_size=1) as agent:
        for offset in (1, 2, 3):
            topics.check(group, offset)
        wait_until(lambda: gate.asked and agent.held == 3)
        stopping = threading.Thread(target=agent.stop)
        stopping.start()
        wait_until(lambda: agent.held == 1)
        gate.open.set()
        stopping.join(PATIENCE_SECONDS)
        assert not agent.alive
    assert len(topics.ends()) == 1
    again = Answers()
    with agent_of(topics, again):
        wait_until(lambda: len(topics.ends()) >= 3)
    assert {offset for offset, _ in topics.ends()} == {1, 2, 3}


def test_a_listener_that_takes_too_long_is_unknown_and_its_late_answer_is_sent(
    topics: ProtocolTopics,
) -> None:
    group = group_of(topics)
    gate = Gate()
    with agent_of(topics, gate, check_timeout_ms=300):
        topics.check(group, 17)
        wait_until(lambda: topics.ends() == [(17, "UNKNOWN")])
        wait_until(lambda: topics.committed(group) == 1)
        [(_, op)] = topics.ops()
        assert "did not answer within 0.3 s" in (op.remark or "")
        assert not op.from_check
        gate.open.set()
        wait_until(lambda: topics.ends() == [(17, "UNKNOWN"), (17, "COMMIT_MESSAGE")])


def test_when_all_threads_hang_the_agent_says_so_and_ends_and_another_answers(
    topics: ProtocolTopics, caplog: pytest.LogCaptureFixture
) -> None:
    group = group_of(topics)
    gate = Gate()
    with agent_of(topics, gate, check_timeout_ms=300, check_thread_pool_max_size=2) as agent:
        for offset in (1, 2, 3):
            topics.check(group, offset)
        with pytest.raises(AgentHung, match="check_timeout_ms"):
            agent.join(PATIENCE_SECONDS)
        assert not agent.wait_ready(0)
    assert "every thread waits" in caplog.text
    with agent_of(topics, Answers()):
        wait_until(lambda: (3, "COMMIT_MESSAGE") in topics.ends())
    gate.open.set()


def test_a_half_whose_listener_hangs_takes_one_thread_however_often_it_is_checked(
    topics: ProtocolTopics,
) -> None:
    group = group_of(topics)
    gate = threading.Event()

    def hangs_at_17(message: Message) -> TransactionStatus:
        assert message.half_offset != "0:17" or gate.wait(PATIENCE_SECONDS)
        return COMMIT

    listener = Answers(hangs_at_17)
    with agent_of(topics, listener, check_timeout_ms=300, check_thread_pool_max_size=2) as agent:
        topics.check(group, 17)
        wait_until(lambda: topics.ends() == [(17, "UNKNOWN")])
        for times in (2, 3, 4):
            topics.check(group, 17, times)
        topics.check(group, 18)
        wait_until(lambda: topics.committed(group) == 5)
        assert agent.alive
        assert [m.half_offset for m in listener.asked] == ["0:17", "0:18"]
        gate.set()
        wait_until(lambda: (17, "COMMIT_MESSAGE") in topics.ends())


def test_after_it_hung_the_checks_behind_those_are_asked(topics: ProtocolTopics) -> None:
    group = group_of(topics)
    gate = threading.Event()

    def hangs(message: Message) -> TransactionStatus:
        assert message.half_offset == "0:3" or gate.wait(PATIENCE_SECONDS)
        return COMMIT

    limits: dict[str, Any] = {"check_timeout_ms": 300, "check_thread_pool_max_size": 2}
    topics.write(*(topics.record_of_check(group, offset, partition=0) for offset in (1, 2, 3)))
    with agent_of(topics, Answers(hangs), ready=False, **limits) as agent:
        with pytest.raises(AgentHung):
            agent.join(PATIENCE_SECONDS)
    assert topics.committed(group) == 2
    with agent_of(topics, Answers(hangs), **limits):
        wait_until(lambda: (3, "COMMIT_MESSAGE") in topics.ends())
        gate.set()


def test_the_callers_executor_asks(topics: ProtocolTopics) -> None:
    names: set[str] = set()

    def says(message: Message) -> TransactionStatus:
        names.add(threading.current_thread().name)
        return COMMIT

    with ThreadPoolExecutor(2, "mine") as executor:
        with agent_of(topics, Answers(says), executor=executor):
            for offset in range(20):
                topics.check(group_of(topics), offset)
            wait_until(lambda: len(topics.ends()) == 20)
    assert names <= {"mine_0", "mine_1"}


def test_it_waits_for_a_topic_that_is_not_there_yet(
    kafka: Broker, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    topics = ProtocolTopics(kafka.bootstrap, prefix)
    topics.make()
    with agent_of(topics, Answers(), ready=False):
        wait_until(lambda: "is not there yet" in caplog.text)
        topics.make(group_of(topics))
        topics.check(group_of(topics), 17)
        wait_until(topics.ends)


def test_it_waits_for_the_topics_of_the_protocol(
    kafka: Broker, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    topics = ProtocolTopics(kafka.bootstrap, prefix)
    with agent_of(topics, Answers(), ready=False):
        missing = ("op does not exist", "half does not exist")
        wait_until(lambda: any(text in caplog.text for text in missing))
        topics.make(group_of(topics))
        topics.check(group_of(topics), 17)
        wait_until(topics.ends)


def test_two_agents_share_the_checks_and_lose_none_when_one_leaves(
    topics: ProtocolTopics,
) -> None:
    group = group_of(topics)
    one, two = Answers(), Answers()
    with agent_of(topics, one):
        with agent_of(topics, two):
            for offset in range(50):
                topics.check(group, offset)
            wait_until(lambda: {offset for offset, _ in topics.ends()} == set(range(50)))
        for offset in range(50, 80):
            topics.check(group, offset)
        wait_until(lambda: {offset for offset, _ in topics.ends()} == set(range(80)))
    assert topics.committed(group) == 80


def test_an_agent_that_was_full_when_another_joined_reads_on(topics: ProtocolTopics) -> None:
    group = group_of(topics)
    gate = Gate()
    records = [topics.record_of_check(group, offset, partition=offset % 2) for offset in range(40)]
    topics.write(*records)
    with agent_of(topics, gate, check_request_hold_max=5) as full:
        wait_until(lambda: full.held == 5)
        with agent_of(topics, Answers(), check_request_hold_max=5):
            gate.open.set()
            wait_until(lambda: {offset for offset, _ in topics.ends()} == set(range(40)))


def test_the_producer_answers_its_groups_checks_and_hooks_see_it(topics: ProtocolTopics) -> None:
    ends: list[TransactionEnd] = []
    with TransactionProducer(
        group_of(topics),
        topics.bootstrap,
        Answers(),
        topic_prefix=topics.names.prefix,
        end_hooks=[ends.append],
    ) as producer:
        with producer.transaction(Message("orders.placed", b"")):
            pass
        topics.check(group_of(topics), 17)
        wait_until(lambda: (17, "COMMIT_MESSAGE") in topics.ends())
        assert producer.agent is not None and producer.agent.alive
    assert [(end.offset, end.from_check) for end in ends] == [(0, False), (17, True)]


def test_a_hook_that_exits_harms_neither_the_agent_nor_other_hooks(
    topics: ProtocolTopics,
) -> None:
    ends: list[int] = []

    def exits(end: TransactionEnd) -> None:
        raise SystemExit(1)

    hooks = [exits, lambda end: ends.append(end.offset)]
    with agent_of(topics, Answers(), end_hooks=hooks) as agent:
        for offset in (17, 18):
            topics.check(group_of(topics), offset)
        wait_until(lambda: sorted(ends) == [17, 18])
        wait_until(lambda: len(topics.ends()) == 2)
        assert agent.alive


def test_agents_of_the_new_group_protocol_share_the_checks(topics: ProtocolTopics) -> None:
    group, kafka = group_of(topics), {"group.protocol": "consumer"}
    topics.write(
        *(topics.record_of_check(group, offset, partition=offset % 2) for offset in range(40))
    )
    gate = Gate()
    with agent_of(topics, gate, kafka=kafka, check_request_hold_max=5) as full:
        wait_until(lambda: full.held == 5)
        with agent_of(topics, Answers(), kafka=kafka, check_request_hold_max=5):
            gate.open.set()
            wait_until(lambda: {offset for offset, _ in topics.ends()} == set(range(40)))


def test_a_callback_of_the_options_that_raises_costs_no_check(
    topics: ProtocolTopics, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(statistics: str) -> None:
        raise RuntimeError("a callback")

    kafka = {"stats_cb": fails, "statistics.interval.ms": "50"}
    with agent_of(topics, Answers(), kafka=kafka) as agent:
        for offset in range(20):
            topics.check(group_of(topics), offset)
        wait_until(lambda: sorted(offset for offset, _ in topics.ends()) == list(range(20)))
        assert agent.alive
    assert "stats_cb of the kafka options failed" in caplog.text


def test_it_goes_on_after_its_broker_was_away(
    tmp_path_factory: pytest.TempPathFactory, prefix: str
) -> None:
    home = tmp_path_factory.mktemp("away")
    listener = Answers()
    with Broker(home) as broker:
        port = int(broker.bootstrap.rpartition(":")[2])
        topics = ProtocolTopics(broker.bootstrap, prefix)
        topics.make(group_of(topics))
        topics.check(group_of(topics), 1)
        agents = agent_of(topics, listener, kafka={"reconnect.backoff.max.ms": "500"})
        agent = agents.__enter__()
        wait_until(topics.ends)
    with Broker(home, port):
        topics.check(group_of(topics), 2)
        wait_until(lambda: (2, "COMMIT_MESSAGE") in topics.ends())
        assert agent.alive
        agents.__exit__(None, None, None)
