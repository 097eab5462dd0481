"""Asking with an executor of the caller's."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from resolver.producer.agent.asking import Asking
from resolver.producer.agent.check_log import CheckLog
from resolver.producer.agent.holding import Held, Holding
from resolver.producer.agent.limits import AgentLimits
from resolver.producer.agent.progress import CheckPosition, Progress
from resolver.protocol import Check, Half, HalfId


def test_an_executor_that_drops_its_tasks_is_not_waited_for() -> None:
    executor, gate, holding = ThreadPoolExecutor(1), threading.Event(), Holding()
    executor.submit(gate.wait, 20)
    nothing: Any = None  # is asked, nothing sent
    limits = AgentLimits(check_thread_pool_max_size=1)
    log = CheckLog("orders")
    asking = Asking(nothing, nothing, holding, Progress(), executor, limits, log)
    half = Half("t1", "orders", "real", 1, None, b"", [])
    holding.put(Held(Check(half, HalfId(0, 1), 1), CheckPosition(0, 1)))
    asking.tend()
    executor.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(RuntimeError, match="after shutdown"):
        asking.tend()
    gate.set()
