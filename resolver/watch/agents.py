"""Metrics of an agent or a producer, for an application's own registry too."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator

try:
    from prometheus_client.core import Metric

    from .metrics import Value, families
except ModuleNotFoundError as missing:
    from ..errors import how_to_install

    raise ModuleNotFoundError(
        f"resolver.watch.agents needs prometheus_client: {how_to_install('metrics')}",
        name=missing.name,
    ) from None

from ..producer.agent import Agent
from ..producer.end_hooks import TransactionEnd


class AgentMetrics:
    """A collector of Prometheus' client, and an end hook: it counts ends as they are sent.

    Example:
        ```python
        metrics = AgentMetrics()
        producer = TransactionProducer("orders", servers, listener, end_hooks=[metrics])
        metrics.watch(producer.agent)
        prometheus_client.REGISTRY.register(metrics)
        ```
    """

    def __init__(self) -> None:
        self._agents: list[Agent] = []
        self._lock = threading.Lock()
        self._ends: Counter[tuple[str, str, str]] = Counter()

    def __call__(self, end: TransactionEnd) -> None:
        """Count an end, as an end hook."""
        source = "check" if end.from_check else "application"
        with self._lock:
            self._ends[end.group, end.state.value, source] += 1

    def watch(self, agent: Agent | None) -> None:
        """Show an agent's figures; None is a producer that answers no checks."""
        if agent is not None:
            self._agents.append(agent)

    @property
    def is_ready(self) -> bool:
        """Whether each agent is a member of its group, and answers."""
        return bool(self._agents) and all(agent.wait_ready(0) for agent in self._agents)

    def collect(self) -> Iterable[Metric]:
        """Return the families; a registry calls this at each scrape."""
        return families(self.values())

    def values(self) -> Iterator[Value]:
        """Yield the figures as they are now."""
        for agent in self._agents:
            group = (agent.group,)
            yield Value("txresolver_agent_up", group, agent.alive)
            yield Value("txresolver_agent_checks_held", group, agent.held)
            yield Value("txresolver_agent_checks_held_max", group, agent.held_max)
        with self._lock:
            ends = list(self._ends.items())
        for labels, count in ends:
            yield Value("txresolver_producer_ends_total", labels, count)
