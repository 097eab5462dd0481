"""`TransactionAgent`: an agent with its own connection, for a process without a producer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from typing import Any

from ...protocol import Names
from ...protocol.groups import check_group
from ..client_options import client_options
from ..end_hooks import TransactionEnd
from ..listener import check_listener
from .agent import Agent
from .checks import check_consumer_options
from .limits import AgentLimits, check_whole
from .outlet import OwnOutlet

__all__ = ["TransactionAgent"]


class TransactionAgent(Agent):
    """Answers a group's checks by asking its listener, in a process without a producer.

    A `TransactionProducer` starts an agent by itself. The agent consumes `tx.check.<group>` as
    consumer group `<group>`, so any live member answers. Kafka need not be there at the start.

    Args:
        group: Producer group whose checks it answers.
        bootstrap_servers: Kafka's brokers, such as `kafka1:9092,kafka2:9092`.
        listener: Answers the checks.
        topic_prefix: Beginning of the protocol's topic names, as in the resolver's setting.
        op_max_bytes: Size in bytes at which an op that packs several answers is sent.
        op_linger_ms: Longest wait in ms of an answer for others to be packed with.
        end_hooks: Functions that are called with each `TransactionEnd`.
        kafka: Options of librdkafka, passed through. Options that the protocol sets are refused.
        check_thread_pool_min_size: Threads that stay when they are idle.
        check_thread_pool_max_size: Most threads that ask the listener.
        check_request_hold_max: Most checks that the agent holds. At this number it fetches no more.
        check_timeout_ms: Time in ms that the listener may take. After it the agent sends UNKNOWN;
            a later answer is still sent.
        executor: Runs the asking instead of the agent's own threads. `check_thread_pool_max_size`
            still limits the checks that are asked at once.

    Attributes:
        group: The producer group.
        failure: The error that ended the agent. None without one.

    Raises:
        SettingsError: If an argument or an option is illegal.
        ListenerError: If the listener is unusable.
        AgentHung: By `join`, if all threads wait for a listener that hangs. The agent ends, and its
            later checks go to another member.

    Example:
        ```python
        with TransactionAgent("orders", "localhost:9092", OrderListener()) as agent:
            agent.join()
        ```
    """

    def __init__(
        self,
        group: str,
        bootstrap_servers: str,
        listener: Any,
        *,
        topic_prefix: str = "tx.",
        op_max_bytes: int = 4096,
        op_linger_ms: int = 10,
        end_hooks: Iterable[Callable[[TransactionEnd], None]] = (),
        kafka: Mapping[str, Any] | None = None,
        check_thread_pool_min_size: int = 1,
        check_thread_pool_max_size: int = 5,
        check_request_hold_max: int = 2000,
        check_timeout_ms: int = 10_000,
        executor: Executor | None = None,
    ) -> None:
        check_group(group, topic_prefix)
        check_listener(listener)
        limits = AgentLimits(
            check_thread_pool_min_size,
            check_thread_pool_max_size,
            check_request_hold_max,
            check_timeout_ms,
        )
        check_whole("op_max_bytes", op_max_bytes, 1)
        check_whole("op_linger_ms", op_linger_ms, 0)
        names = Names(topic_prefix)
        options = client_options(bootstrap_servers, kafka, group)
        check_consumer_options(options, group)
        outlet = OwnOutlet(options, names, group, op_max_bytes, op_linger_ms, end_hooks)
        super().__init__(group, listener, names, options, outlet, limits, executor)
