"""Asking with an executor of the caller's."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from resolver.agent.asking import Asking
from resolver.agent.holding import Held, Holding
from resolver.agent.limits import AgentLimits
from resolver.agent.progress import Place, Progress
from resolver.protocol import Check, Half


def test_an_executor_that_drops_its_tasks_is_not_waited_for() -> None:
    executor, gate, holding = ThreadPoolExecutor(1), threading.Event(), Holding()
    executor.submit(gate.wait, 20)
    nothing: Any = None  # is asked, nothing sent
    limits = AgentLimits(check_thread_pool_max_size=1)
    asking = Asking(nothing, nothing, holding, Progress(), executor, limits)
    half = Half("t1", "orders", "real", 1, None, b"", [])
    holding.put(Held(Check(half, 0, 1, 1), Place(0, 1)))
    asking.tend()
    executor.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(RuntimeError, match="after shutdown"):
        asking.tend()
    gate.set()
