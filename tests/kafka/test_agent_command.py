"""`txresolver agent`, a process of its own: killed, stopped, hung."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO
from urllib.request import urlopen

import pytest

from resolver.broker import Broker
from resolver.broker.ports import free_port
from tests.support.patience import PATIENCE_SECONDS, wait_until

from .protocol_topics import ProtocolTopics, group_of

LISTENERS = """
import threading
from pathlib import Path

from resolver import TransactionListener, TransactionStatus


class Commits(TransactionListener):
    def check_local_transaction(self, message):
        return TransactionStatus.COMMIT_MESSAGE


class Hangs(TransactionListener):
    def check_local_transaction(self, message):
        Path("asked").touch()
        threading.Event().wait()


class Slow(TransactionListener):
    def check_local_transaction(self, message):
        Path("asked").touch()
        while not Path("go").exists():
            threading.Event().wait(0.05)
        return TransactionStatus.ROLLBACK_MESSAGE
"""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def topics(kafka: Broker, prefix: str) -> ProtocolTopics:
    made = ProtocolTopics(kafka.bootstrap, prefix)
    made.make(group_of(made))
    return made


@pytest.fixture
def start(topics: ProtocolTopics, tmp_path: Path) -> Iterator[Start]:
    """Start an agent with one of the listeners above."""
    (tmp_path / "shop.py").write_text(LISTENERS)
    started: list[subprocess.Popen[str]] = []

    def started_with(
        listener: str, *settings: str, options: Sequence[str] = (), errors: IO[str] | None = None
    ) -> subprocess.Popen[str]:
        command = [str(Path(sys.executable).with_name("txresolver")), "agent"]
        command += ["--group", group_of(topics), "--listener", f"shop:{listener}"]
        command += ["--bootstrap-servers", topics.bootstrap, *options]
        common = [f"topic_prefix={topics.names.prefix}", "kafka.session.timeout.ms=6000"]
        for setting in [*common, *settings]:
            command += ["--set", setting]
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        started.append(process)
        return process

    yield started_with
    for process in started:
        process.kill()
        process.wait(PATIENCE_SECONDS)
        if process.stdout:
            process.stdout.close()


def await_ready(process: subprocess.Popen[str], topics: ProtocolTopics) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"ready: group={group_of(topics)}\n"


def write_checks(topics: ProtocolTopics) -> None:
    topics.write(
        *(
            topics.record_of_check(group_of(topics), offset, partition=offset % 2)
            for offset in range(6)
        )
    )


def all_are_answered(topics: ProtocolTopics) -> bool:
    return {offset for offset, state in topics.ends() if state == "COMMIT_MESSAGE"} == set(range(6))


@pytest.mark.gate
def test_another_of_the_group_answers_what_a_killed_agent_held(
    topics: ProtocolTopics, start: Start, tmp_path: Path
) -> None:
    holder = start("Hangs", "check_timeout_ms=600000")
    await_ready(holder, topics)
    write_checks(topics)
    wait_until((tmp_path / "asked").exists)
    other = start("Commits")
    await_ready(other, topics)
    holder.kill()
    wait_until(lambda: all_are_answered(topics))


def test_what_a_killed_agent_held_is_answered_when_it_is_back(
    topics: ProtocolTopics, start: Start, tmp_path: Path
) -> None:
    holder = start("Hangs", "check_timeout_ms=600000")
    await_ready(holder, topics)
    write_checks(topics)
    wait_until((tmp_path / "asked").exists)
    holder.kill()
    holder.wait(PATIENCE_SECONDS)
    assert topics.ends() == []
    start("Commits")
    wait_until(lambda: all_are_answered(topics))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_the_answer_that_is_being_given(
    topics: ProtocolTopics, start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    agent = start("Slow")
    await_ready(agent, topics)
    topics.check(group_of(topics), 17)
    wait_until((tmp_path / "asked").exists)
    agent.send_signal(number)
    (tmp_path / "go").touch()
    assert agent.wait(PATIENCE_SECONDS) == 0
    assert topics.ends() == [(17, "ROLLBACK_MESSAGE")]
    assert topics.committed(group_of(topics)) == 1


def test_when_all_threads_hang_it_exits_with_1(topics: ProtocolTopics, start: Start) -> None:
    agent = start("Hangs", "check_timeout_ms=300", "check_thread_pool_max_size=1")
    await_ready(agent, topics)
    topics.check(group_of(topics), 17)
    assert agent.wait(PATIENCE_SECONDS) == 1
    assert topics.ends() == [(17, "UNKNOWN")]


def test_a_listener_that_is_not_there_is_named(
    start: Start, capfd: pytest.CaptureFixture[str]
) -> None:
    assert start("NotThere").wait(PATIENCE_SECONDS) == 1
    assert "error: can't load the listener 'shop:NotThere'" in capfd.readouterr().err


@pytest.mark.gate
def test_it_serves_metrics_and_health_and_logs_transactions_as_json(
    topics: ProtocolTopics, start: Start, tmp_path: Path
) -> None:
    address = f"127.0.0.1:{free_port()}"
    (tmp_path / "go").touch()
    with (tmp_path / "log").open("w") as log:
        served = f"agent_metrics_address={address}"
        agent = start("Slow", served, options=["--log-format", "json"], errors=log)
        assert agent.stdout is not None
        ready = json.loads(agent.stdout.readline())
        assert ready["message"] == f"ready: group={group_of(topics)}"
        assert get(f"http://{address}/readyz") == "ok\n"
        write_checks(topics)
        wait_until(lambda: len(topics.ends()) == 6)
    labels = f'group="{group_of(topics)}",source="check",state="ROLLBACK_MESSAGE"'
    counted = f"txresolver_producer_ends_total{{{labels}}} 6.0"
    wait_until(lambda: counted in get(f"http://{address}/metrics"))  # a moment after the last op
    metrics = get(f"http://{address}/metrics")
    assert f'txresolver_agent_up{{group="{group_of(topics)}"}} 1.0' in metrics
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    answered = [line for line in lines if "transaction_id" in line]
    assert {line["half"] for line in answered} == {f"0:{n}" for n in range(6)}
    assert all(line["transaction_id"] in line["message"] for line in answered)


def get(url: str) -> str:
    with urlopen(url, timeout=30) as answer:  # noqa: S310 - our own server
        return str(answer.read().decode())
