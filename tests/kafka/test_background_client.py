"""New clients that ask for offsets: planning makes one every few seconds, others make some too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from resolver.broker import Broker
from resolver.kafka.clients import admin_client
from resolver.kafka.topics import ensure_topics
from resolver.settings import Settings
from tests.faults.compiled import compiled
from tests.support.patience import PATIENCE_SECONDS

_LATE = Path(__file__).with_name("late_unlock.c")
#: A client that asks before it knows its topics ends the process about one time in four.
_CLIENTS = 20
_PROGRAM = """
import sys, time
from confluent_kafka import TopicPartition
from resolver.kafka.background_client import BackgroundClient
from resolver.kafka.clients import admin_client
from resolver.kafka.offset_answers import LATEST, ask_offsets
from resolver.protocol import Names
from resolver.settings import Settings

servers, prefix, clients, patience, whose = sys.argv[1:]
settings, names = Settings(bootstrap_servers=servers, topic_prefix=prefix), Names(prefix)
halves = {TopicPartition(names.half, queue): LATEST for queue in range(settings.queues)}

def planning():
    client = BackgroundClient(settings, (names.half, names.op), float(patience), time.monotonic)
    client.wait()
    return client.answers().keys() == client.partitions()

def others():
    client = admin_client(settings)
    futures = ask_offsets(client, halves, float(patience))
    failed = [future.exception(float(patience)) for future in futures.values()]
    return failed == [None] * len(halves)

answered = 0
while answered < int(clients):
    answered += {"planning": planning, "others": others}[whose]()
"""


@pytest.mark.parametrize("whose", ["planning", "others"])
def test_new_clients_do_not_end_the_process(
    kafka: Broker, prefix: str, tmp_path: Path, whose: str
) -> None:
    """While a topic is unknown, librdkafka's ListOffsets works on one object in two threads.

    A preloaded library lets the thread that asks go on late.
    """
    settings = Settings(bootstrap_servers=kafka.bootstrap, topic_prefix=prefix)
    ensure_topics(admin_client(settings), settings)
    late = compiled(_LATE, tmp_path / "late_unlock.so", "to let a thread go on late")
    arguments = [kafka.bootstrap, prefix, str(_CLIENTS), "5", whose]
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", _PROGRAM, *arguments],
        env={**os.environ, "LD_PRELOAD": str(late)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stderr.rpartition("late: ")[2]) > 0
