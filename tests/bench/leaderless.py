"""How long all others wait while one real topic has no leader: its only node is away."""

from __future__ import annotations

import uuid
from dataclasses import replace

from resolver.broker import Broker
from tests.support.second_node import SecondNode, have_kafkas_topics_made

from .arriving import Window, measure
from .results import Figures
from .sent_log import SentLog
from .setup import Setup, await_batch, await_delivered, send, watch

#: Seconds without a leader.
_AWAY_SECONDS = 90.0
#: Transactions a second: of all others, and of the topic that loses its leader.
_RATE, _RATE_OF_PARKED = 200, 20
#: Longest wait in seconds for a parked message: a topic that has stalled is tried each minute.
_RELEASE_SECONDS = 120.0


def leaderless(setup: Setup, warm_up: float) -> Figures:
    """Return the others' latency while a topic has no leader, and what became of its messages."""
    window = Window(warm_up, _AWAY_SECONDS)
    home = setup.folder()
    with Broker(home) as broker:
        have_kafkas_topics_made(broker)
        settings = replace(setup.settings, bootstrap_servers=broker.bootstrap)
        with Setup(setup.spark, settings, home).topics() as topics:
            second = SecondNode(broker, home / "second")
            second.start()  # after the topics are made, so that it has none of them
            try:
                sick = topics._replace(real=f"sick-{uuid.uuid4().hex[:8]}")
                second.make_topic(sick.real)
                with setup.resolving(topics) as job:
                    await_batch(job)
                    others = SentLog(topics.home / "others", window.room(_RATE))
                    parked = SentLog(topics.home / "parked", window.room(_RATE_OF_PARKED))
                    with (
                        watch(sick, parked) as watcher,
                        send(sick, parked, form="threads", rate=_RATE_OF_PARKED) as sender,
                    ):
                        options: dict[str, object] = {"form": "threads", "rate": _RATE}
                        figures = measure(topics, window, others, options, job.query, second.stop)
                        before = parked.delivered
                        sent = int(sender.result())
                        second.start()
                        await_delivered(parked, sent, watcher, _RELEASE_SECONDS)
                    return {
                        "rate": _RATE,
                        **figures,
                        "parked": sent - before,
                        "parked_lost": sent - parked.delivered,
                        "parked_doubled": parked.doubled(),
                    }
            finally:
                second.stop()
