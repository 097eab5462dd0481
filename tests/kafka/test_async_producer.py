"""The producer for asyncio on a real broker: what it does differently from the one for threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from resolver import (
    AsyncTransactionProducer,
    HalfNotAcknowledged,
    Message,
    SendError,
    TransactionAgent,
    TransactionListener,
    TransactionStatus,
    TxResolverError,
)
from resolver.broker import Broker
from tests.support.patience import PATIENCE_SECONDS, SEND_TIMEOUT_MS, wait_until

from .protocol_topics import ProtocolTopics, group_of

COMMIT, ROLLBACK, UNKNOWN = (
    TransactionStatus.COMMIT_MESSAGE,
    TransactionStatus.ROLLBACK_MESSAGE,
    TransactionStatus.UNKNOWN,
)
MESSAGE = Message("orders.placed", b"body", b"key", [("a", b"1")])


class Orders:
    """Answers what it is given, from the event loop; says which thread asked."""

    def __init__(self, answer: TransactionStatus = UNKNOWN) -> None:
        self.asked_by: list[str] = []
        self._answer = answer

    async def execute_local_transaction(self, message: Message, arg: Any) -> TransactionStatus:
        await asyncio.sleep(0)
        return await self._say(arg)

    async def execute_local_transaction_for_all(
        self, messages: list[Message], arg: Any
    ) -> TransactionStatus:
        return await self._say(arg)

    async def check_local_transaction(self, message: Message) -> TransactionStatus:
        return await self._say(self._answer)

    async def _say(self, answer: Any) -> TransactionStatus:
        self.asked_by.append(threading.current_thread().name)
        if isinstance(answer, BaseException):
            raise answer
        said: TransactionStatus = answer
        return said


class PlainOrders(TransactionListener):
    """The same from a thread."""

    def __init__(self) -> None:
        self.asked_by: list[str] = []

    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionStatus:
        self.asked_by.append(threading.current_thread().name)
        return COMMIT

    def check_local_transaction(self, message: Message) -> TransactionStatus:
        self.asked_by.append(threading.current_thread().name)
        return ROLLBACK


@pytest.fixture
def topics(kafka: Broker, prefix: str) -> ProtocolTopics:
    made = ProtocolTopics(kafka.bootstrap, prefix)
    made.make(group_of(made))
    return made


def producer_of(topics: ProtocolTopics, **options: Any) -> AsyncTransactionProducer:
    given: dict[str, Any] = {
        "listener": Orders(),
        "checks_elsewhere": True,
        "send_timeout_ms": SEND_TIMEOUT_MS,
        **options,
    }
    return AsyncTransactionProducer(
        group_of(topics), topics.bootstrap, topic_prefix=topics.names.prefix, **given
    )


def states(topics: ProtocolTopics) -> list[str]:
    return [state for _, state in topics.ends()]


def own_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("txresolver")]


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 120))


def test_many_tasks_send_at_once_and_their_ops_are_packed(topics: ProtocolTopics) -> None:
    listener = Orders()

    async def scenario() -> None:
        async with producer_of(topics, listener=listener, op_linger_ms=200) as producer:
            results = await asyncio.gather(
                *(
                    producer.send_message_in_transaction(MESSAGE, state)
                    for state in [COMMIT, ROLLBACK, OSError("disk")] * 100
                )
            )
        ends = {
            (queue, element.offset): (op.state, element.transaction_id, op.remark)
            for queue, op in topics.ops()
            for element in op.elements
        }
        assert ends == {
            (r.queue, r.offset): (r.local_transaction_state, r.transaction_id, r.remark)
            for r in results
        }
        assert [r.local_transaction_state for r in results[:3]] == [COMMIT, ROLLBACK, UNKNOWN]
        assert "OSError" in (results[2].remark or "")

    run(scenario())
    assert len(topics.ops()) < 100
    assert set(listener.asked_by) == {"MainThread"}


def test_many_messages_of_one_local_transaction_end_together(topics: ProtocolTopics) -> None:
    async def scenario() -> None:
        few = {"queue.buffering.max.messages": "7"}
        async with producer_of(topics, kafka=few) as producer:
            results = await producer.send_messages_in_transaction([MESSAGE] * 50, COMMIT)
            with pytest.raises(ZeroDivisionError):
                async with producer.transactions([MESSAGE] * 50):
                    raise ZeroDivisionError
        assert {r.local_transaction_state for r in results} == {COMMIT}
        assert len({r.half_offset for r in results}) == 50

    run(scenario())
    assert sorted(states(topics)) == ["COMMIT_MESSAGE"] * 50 + ["UNKNOWN"] * 50


@pytest.mark.gate
def test_a_block_ends_as_it_does_and_a_cancelled_one_is_unknown(topics: ProtocolTopics) -> None:
    async def scenario() -> None:
        async with producer_of(topics) as producer:
            async with producer.transaction(MESSAGE) as committed:
                assert committed.state is None
            with pytest.raises(asyncio.TimeoutError):
                async with producer.transaction(MESSAGE) as timed_out:
                    await asyncio.wait_for(asyncio.Event().wait(), 0.01)
            began = asyncio.Event()

            async def hangs() -> None:
                async with producer.transaction(MESSAGE):
                    began.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(hangs())
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert [one.state for one in (committed, timed_out)] == [COMMIT, UNKNOWN]

    run(scenario())
    assert sorted(states(topics)) == ["COMMIT_MESSAGE", "UNKNOWN", "UNKNOWN"]


def test_a_half_that_is_not_waited_for_to_the_end_is_rolled_back_when_it_turns_up(
    topics: ProtocolTopics,
) -> None:
    async def scenario() -> None:
        async with producer_of(topics, kafka={"linger.ms": "2000"}) as producer:
            with pytest.raises(HalfNotAcknowledged, match="did not run"):
                await producer.send_message_in_transaction(MESSAGE, COMMIT, timeout=0.2)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(producer.begin(MESSAGE), 0.2)

    run(scenario())
    assert states(topics) == ["ROLLBACK_MESSAGE"] * 2


@pytest.mark.parametrize("is_async", [True, False])
def test_checks_are_answered_by_either_kind_of_listener(
    topics: ProtocolTopics, is_async: bool
) -> None:
    listener: Any = Orders(ROLLBACK) if is_async else PlainOrders()

    async def scenario() -> None:
        async with producer_of(topics, listener=listener, checks_elsewhere=False) as producer:
            await producer.send_message_in_transaction(MESSAGE, COMMIT)
            topics.check(group_of(topics), 17)
            await asyncio.to_thread(wait_until, lambda: (17, "ROLLBACK_MESSAGE") in topics.ends())
            assert (await producer.begin(MESSAGE)).state is None

    run(scenario())
    assert len(listener.asked_by) == 2
    assert (set(listener.asked_by) == {"MainThread"}) is is_async
    assert is_async or "MainThread" not in listener.asked_by
    wait_until(lambda: own_threads() == [])


def test_a_start_that_is_cancelled_leaves_nothing_running(topics: ProtocolTopics) -> None:
    async def scenario() -> None:
        starting = asyncio.create_task(producer_of(topics, checks_elsewhere=False).start())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    run(scenario())
    wait_until(lambda: own_threads() == [])


@pytest.mark.parametrize("cancels", [0, 2])
def test_a_start_whose_loop_ends_leaves_nothing_running(
    topics: ProtocolTopics, cancels: int
) -> None:
    async def scenario() -> None:
        starting = asyncio.create_task(producer_of(topics, checks_elsewhere=False).start())
        await asyncio.sleep(0)
        for _ in range(cancels):
            starting.cancel()
            await asyncio.sleep(0)

    asyncio.run(scenario())  # it cancels all tasks at its end
    wait_until(lambda: own_threads() == [])


def test_an_agent_whose_loop_is_closed_answers_nothing_and_leaves_it_to_others(
    topics: ProtocolTopics,
) -> None:
    producer = producer_of(topics, listener=Orders(ROLLBACK), checks_elsewhere=False)
    asyncio.run(producer.start())
    assert producer.agent is not None and producer.agent.wait_ready(PATIENCE_SECONDS)
    topics.check(group_of(topics), 17)
    with pytest.raises(TxResolverError, match="event loop of its listener is closed"):
        producer.agent.join(PATIENCE_SECONDS)
    assert topics.ends() == []
    prefix = topics.names.prefix
    with TransactionAgent(group_of(topics), topics.bootstrap, PlainOrders(), topic_prefix=prefix):
        wait_until(lambda: topics.ends() == [(17, "ROLLBACK_MESSAGE")])
    asyncio.run(producer.close())


def test_it_closes_while_all_threads_of_asyncio_wait(topics: ProtocolTopics) -> None:
    gate = threading.Event()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        producer = producer_of(topics)
        await producer.start()
        waiting = loop.run_in_executor(None, gate.wait)
        try:
            await asyncio.wait_for(producer.close(), 20)
        finally:
            gate.set()
        await waiting

    run(scenario())


def test_it_sends_only_in_the_loop_that_it_was_started_in(topics: ProtocolTopics) -> None:
    async def scenario() -> None:
        producer = producer_of(topics)
        with pytest.raises(SendError, match="not started in this event loop; use `async with`"):
            await producer.begin(MESSAGE)
        await producer.close()
        await producer.start()
        with pytest.raises(SendError, match="was started already"):
            await producer.start()
        await producer.close()
        with pytest.raises(SendError, match="is closed"):
            await producer.begin(MESSAGE)

    run(scenario())
