"""`TransactionAgent`: an agent with its own connection, for a process without a producer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..connection import client_options
from ..ending import EndHook
from ..groups import check_group
from ..listener import check_listener
from ..protocol import Names
from .agent import Agent
from .asking import Submits
from .checks import check_consumer_options
from .limits import AgentLimits, check_whole
from .outlet import OwnOutlet

__all__ = ["TransactionAgent"]


class TransactionAgent(Agent):
    """Answers a group's checks by asking its listener.

        with TransactionAgent("orders", "localhost:9092", OrderListener()) as agent:
            agent.join()

    A `TransactionProducer` starts one by itself; this is for a process of its own. It consumes
    `tx.check.<group>` as consumer group `<group>`, so that any live member answers.

    | argument | meaning |
    | --- | --- |
    | check_thread_pool_min_size, ..._max_size | threads that ask the listener |
    | executor | runs the asking instead; `..._max_size` still limits what is asked at once |
    | check_request_hold_max | checks held at most; then none are fetched |
    | check_timeout_ms | after this a check is not answered; a later answer is sent all the same |

    The others are the producer's. When all threads wait for a listener that hangs, the agent
    ends with `AgentHung` in `failure`, raised by `join`; the checks go to another member.
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
        end_hooks: Iterable[EndHook] = (),
        kafka: Mapping[str, Any] | None = None,
        check_thread_pool_min_size: int = 1,
        check_thread_pool_max_size: int = 5,
        check_request_hold_max: int = 2000,
        check_timeout_ms: int = 10_000,
        executor: Submits | None = None,
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
