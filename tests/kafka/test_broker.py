from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from resolver.broker import Broker
from resolver.errors import BrokerError
from tests.support.patience import PATIENCE_SECONDS, wait_until

RUN = """
import sys, time
from pathlib import Path
from resolver.broker import Broker
with Broker(Path(sys.argv[1])) as broker:
    print(broker.pid, broker.bootstrap, flush=True)
    time.sleep(600)
"""


def make_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=30)[topic].result(
        timeout=PATIENCE_SECONDS
    )


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.commit_transaction(30)


def consume(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    read: list[bytes | None] = []
    until = time.monotonic() + PATIENCE_SECONDS
    while len(read) < count and time.monotonic() < until:
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            read.append(message.value())
    consumer.close()
    return read


def is_running(pid: int) -> bool:
    return bool(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of 127.0.0.1 on which somebody else listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.mark.gate
def test_messages_and_the_port_survive_a_restart(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        bootstrap, first = broker.bootstrap, broker.pid
        make_topic(bootstrap, "orders")
        produce(bootstrap, "orders", [b"1", b"2"])
        assert consume(bootstrap, "orders", 2) == [b"1", b"2"]
    assert not is_running(first)
    with Broker(tmp_path) as broker:
        assert broker.bootstrap == bootstrap
        produce(bootstrap, "orders", [b"3"])
        # The group goes on where it was: its offsets are there too.
        assert consume(bootstrap, "orders", 1) == [b"3"]


def test_a_wanted_port_is_used_and_kept(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with Broker(tmp_path, port) as broker:
        assert broker.bootstrap == f"127.0.0.1:{port}"
    with Broker(tmp_path) as broker:
        assert broker.bootstrap == f"127.0.0.1:{port}"


def test_two_new_homes_that_prefer_a_port_at_once_get_one_each(tmp_path: Path) -> None:
    """Both find the port free; the one that comes second chooses again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    brokers = [Broker(tmp_path / name, preferred=port) for name in ("first", "second")]
    try:
        for broker in brokers:
            broker.prepare()
            assert broker.bootstrap == f"127.0.0.1:{port}"
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(Broker.start, brokers))
        addresses = {broker.bootstrap for broker in brokers}
        assert len(addresses) == 2
        assert f"127.0.0.1:{port}" in addresses
        for address in addresses:
            assert AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).brokers
    finally:
        for broker in brokers:
            broker.stop()


def test_a_preferred_port_that_is_taken_is_left_to_its_owner(tmp_path: Path, taken: int) -> None:
    broker = Broker(tmp_path, preferred=taken)
    broker.prepare()
    assert broker.bootstrap != f"127.0.0.1:{taken}"
    broker.stop()


def test_a_home_keeps_its_port_though_another_is_preferred(tmp_path: Path) -> None:
    first = Broker(tmp_path)
    first.prepare()
    first.stop()
    again = Broker(tmp_path, preferred=9092)
    again.prepare()
    assert again.bootstrap == first.bootstrap
    again.stop()


def test_topics_are_not_made_by_accident(kafka: Broker, prefix: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.list_topics(f"{prefix}typo", timeout=30)
    assert f"{prefix}typo" not in admin.list_topics(timeout=30).topics


def test_a_second_broker_in_one_home_is_refused_and_the_first_goes_on(
    kafka: Broker, prefix: str
) -> None:
    with pytest.raises(BrokerError, match=f"process {os.getpid()} runs a broker in .*another home"):
        Broker(kafka.home).start()
    make_topic(kafka.bootstrap, f"{prefix}orders")
    kafka.check()


def test_a_taken_port_is_named(tmp_path: Path, taken: int) -> None:
    with pytest.raises(BrokerError, match=rf"port {taken} .*taken by another process.*--port"):
        Broker(tmp_path, taken).start()


def test_a_kept_port_that_was_taken_meanwhile_is_named(tmp_path: Path, taken: int) -> None:
    (tmp_path / "ports.json").write_text(f'{{"kafka": {taken}, "controller": 20001}}')
    with pytest.raises(BrokerError, match=f"port {taken} .*has kept since its first start"):
        Broker(tmp_path).start()


def test_a_taken_controller_port_is_replaced(tmp_path: Path, taken: int) -> None:
    with Broker(tmp_path) as broker:
        bootstrap = broker.bootstrap
        make_topic(bootstrap, "orders")
        produce(bootstrap, "orders", [b"1"])
    kafka_port = bootstrap.rpartition(":")[2]
    (tmp_path / "ports.json").write_text(f'{{"kafka": {kafka_port}, "controller": {taken}}}')
    with Broker(tmp_path) as broker:
        assert broker.bootstrap == bootstrap
        assert consume(bootstrap, "orders", 1) == [b"1"]


def test_a_broker_that_is_not_up_in_time_shows_its_log_and_is_gone(tmp_path: Path) -> None:
    with Broker(tmp_path):
        pass  # formatted, and with a log
    with pytest.raises(BrokerError, match=r"within 0.5 s\. The end of .*broker\.log:\n  .+"):
        Broker(tmp_path, startup_seconds=0.5).start()
    with Broker(tmp_path) as broker:  # nothing is left that holds the home or the port
        broker.check()


def test_a_broker_that_dies_at_its_start_says_why(tmp_path: Path) -> None:
    with Broker(tmp_path):
        pass
    meta = tmp_path / "data" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))
    with pytest.raises(BrokerError, match=r"(?s)broker died.*node"):
        Broker(tmp_path).start()


def test_a_broker_that_died_is_noticed(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        os.kill(broker.pid, signal.SIGKILL)
        with pytest.raises(BrokerError, match="broker died"):
            broker.wait()


def test_too_small_a_heap_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXRESOLVER_BROKER_HEAP", "-Xmx8m")
    with pytest.raises(BrokerError, match=r"(?s)OutOfMemory.*TXRESOLVER_BROKER_HEAP"):
        Broker(tmp_path).start()


def test_a_full_disk_is_named_with_what_is_free(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=r"disk of .* is full: \d+ MiB are free"):
        Broker(tmp_path, min_free_bytes=1 << 62).start()


def test_no_java_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerError, match=r"no java on PATH.*openjdk-17-jre-headless"):
        Broker(tmp_path / "home").prepare()


def test_a_java_home_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BrokerError, match=f"JAVA_HOME is {tmp_path}, but there is no"):
        Broker(tmp_path / "home").prepare()


@pytest.mark.parametrize(("said", "version"), [("1.8.0_392", "8"), ("11.0.21", "11")])
def test_too_old_a_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, version: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{said}\" 2023-10-17' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BrokerError, match=f"is Java {version}, which is too old.*Java 17"):
        Broker(tmp_path / "home").prepare()


def test_kill_9_of_its_parent_ends_the_broker_and_the_home_can_be_used_again(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, bootstrap = parent.stdout.readline().split()
        make_topic(bootstrap, "orders")
        produce(bootstrap, "orders", [b"1"])
        parent.kill()
        wait_until(lambda: not is_running(int(pid)))
    with Broker(tmp_path) as broker:
        assert broker.bootstrap == bootstrap
        assert consume(bootstrap, "orders", 1) == [b"1"]


def test_a_commit_survives_kill_9_of_the_broker_before_its_marker_is_written(
    tmp_path: Path,
) -> None:
    """Without recovery.py the messages of such a commit stay hidden for good."""
    with Broker(tmp_path) as broker:
        bootstrap = broker.bootstrap
        make_topic(bootstrap, "orders")
        produce(bootstrap, "orders", [b"1"])  # returns when the commit is decided, not written
        os.kill(broker.pid, signal.SIGKILL)
    with Broker(tmp_path) as broker:
        assert consume(bootstrap, "orders", 1) == [b"1"]


def test_the_broker_is_out_of_reach_of_the_terminal_s_signals(kafka: Broker) -> None:
    assert os.getpgid(kafka.pid) != os.getpgid(0)
    assert os.getsid(kafka.pid) != os.getsid(0)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_command_says_ready_and_ends_with_a_signal(
    tmp_path: Path, stop: signal.Signals
) -> None:
    command = [sys.executable, "-c", "from resolver.cli import main; main()", "broker"]
    with subprocess.Popen(
        [*command, "--home", str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        ready = running.stdout.readline().strip()
        address = ready.removeprefix("ready: bootstrap=")
        assert AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).brokers
        javas = [child.pid for child in psutil.Process(running.pid).children(recursive=True)]
        running.send_signal(stop)
        assert running.wait(timeout=PATIENCE_SECONDS) == 0
    assert javas and not any(is_running(pid) for pid in javas)


def test_the_command_s_errors_are_one_line_without_a_traceback(kafka: Broker) -> None:
    home = kafka.home.parent / "shared"
    home.mkdir(exist_ok=True)
    (home / "broker").symlink_to(kafka.home)
    done = subprocess.run(
        [sys.executable, "-c", "from resolver.cli import main; main()", "broker", "--home", home],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: process ")
    assert len(done.stderr.splitlines()) == 1


def run_kafka(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "resolver", "kafka", "--home", str(home), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_javas_consumer_reads_a_topic_beside_the_broker(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        make_topic(broker.bootstrap, "orders")
        produce(broker.bootstrap, "orders", [b"lamp"])
        read = run_kafka(
            tmp_path, "console-consumer", "--topic", "orders", "--from-beginning",
            "--isolation-level", "read_committed", "--max-messages", "1",
            "--formatter-property", "print.headers=true",
        )  # fmt: skip
    assert read.stdout.strip().endswith("lamp"), read.stderr
    refused = run_kafka(tmp_path, "console-consumer", "--topic", "orders")
    assert refused.returncode == 2
    assert "no embedded broker runs here" in refused.stderr
    unknown = run_kafka(tmp_path, "consumer")
    assert unknown.returncode == 2
    assert "console-consumer" in unknown.stderr


def test_commands_find_the_broker_of_a_home_and_say_at_once_where_none_runs(
    tmp_path: Path,
) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "resolver", *arguments, "--home", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    with Broker(tmp_path / "broker") as broker:
        made = command("topics", "create", "--topic", "orders.placed", "--group", "orders")
        assert made.returncode == 0, made.stderr
        assert ["orders.placed", "created", "4", "1"] in map(str.split, made.stdout.splitlines())
        consumed = run_kafka(tmp_path, "topics", "--list")
        assert "orders.placed" in consumed.stdout.splitlines(), consumed.stderr
        topics = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics
        assert "tx.check.orders" in topics
    for refused in (command("topics", "create"), command("audit", "--topics")):
        assert refused.returncode == 2
        assert "no embedded broker runs here; start `txresolver up`" in refused.stderr
    assert not (tmp_path / "tables").exists()
