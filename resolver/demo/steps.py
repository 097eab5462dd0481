"""The steps of the demo, in a home: what is started, killed and awaited, and the report."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections import defaultdict
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console

from ..broker.locks import FileLock
from ..errors import DemoError, TxResolverError
from ..kafka.clients import client_config
from ..kafka.topic_admin import await_topics
from ..kafka.topics import ensure_topics
from ..protocol import Names
from ..settings import Settings
from ..up.home import Home
from .comparison import Comparison, compare, delivered_content, print_report
from .processes import Process, described, write_settings
from .reading import Reader, Tally, has_landed
from .running import Interrupted, RunningDemo
from .screen import DemoState, Lines, Screen
from .shop import GROUP, TOPIC, Content, placed

#: Times in seconds that the demo waits.
_RESOLVER_SECONDS = 300.0
_READY_SECONDS = 90.0
_READ_SECONDS = 120.0
_PENDING_SECONDS = 120.0
_LAND_SECONDS = 120.0
_DEATH_SECONDS = 30.0
_STOP_SECONDS = 60.0
#: Time for the resolver's last batches, then for the ends of Spark and the broker.
_RESOLVER_STOP_SECONDS = 150.0
#: Beyond the time of sending: a machine may be asleep for a while.
_SPARE_SECONDS = 600.0
#: Time for processes of a killed demo, which may still be ending.
_DYING_SECONDS = 90.0

_SECONDS_PER_KILL = 20.0
_PARTITIONS = 4
_INTERRUPTED = 130


def run_demo(path: Path, seconds: float, rate: float) -> int:
    """Show the demo in home `path` and print the comparison; return the exit code."""
    home = path.resolve()
    console = Console()
    with FileLock(home / "demo.lock") as lock:
        if not lock.acquire_after(_DYING_SECONDS):
            raise DemoError(
                f"process {lock.owner()} shows a demo in home {home}",
                remedy="wait for its end, or give another with --home",
            )
        _log_to(home / "logs" / "demo.log")
        print(f"Settings that are shortened, in {home / 'demo.toml'}:\n{described()}", flush=True)
        state = DemoState(seconds, kills_planned=max(1, round(seconds / _SECONDS_PER_KILL)))
        view = Screen(console) if console.is_terminal else Lines()
        demo = RunningDemo(home, state, view, lock.fileno())
        try:
            comparison = _run_steps(demo, rate)
        except Interrupted:
            console.print("Interrupted: everything is stopped; nothing was compared.")
            return _INTERRUPTED
    print_report(console, comparison, demo.database_file, home)
    return 0 if comparison.holds else 1


def _log_to(file: Path) -> None:
    """Keep the lines of all loggers, librdkafka's among them, from the terminal."""
    file.parent.mkdir(parents=True, exist_ok=True)
    form = "%(asctime)s %(levelname)s %(name)s %(message)s"
    logging.basicConfig(filename=file, level=logging.INFO, format=form, force=True)


def _run_steps(demo: RunningDemo, rate: float) -> Comparison:
    try:
        with demo.noting_signals(), demo:
            return Steps(demo, rate).run()
    except (TxResolverError, KafkaException, OSError, sqlite3.Error) as error:
        raise DemoError(
            f"the demo failed: {error}", remedy=f"see the logs in {demo.logs}"
        ) from error


class Steps:
    """The demo's steps, from the start of Kafka to the comparison."""

    def __init__(self, demo: RunningDemo, rate: float) -> None:
        self._demo = demo
        self._state = demo.state
        self._rate = rate

    def run(self) -> Comparison:
        """Take all steps; raises `DemoError`, `Interrupted`."""
        resolver = self._start_resolver()
        self._open_topics()
        agent = self._start_agent()
        shop = self._send(self._start_shop())
        self._close(shop)
        self._wait_for_outcomes()
        comparison = self._compare()
        self._wait_for_tables()
        self._demo.phase("stopping Kafka and the resolver")
        self._demo.stop_reading()
        self._demo.stop(agent)
        self._demo.stop(resolver)
        return comparison

    def _start_resolver(self) -> Process:
        demo = self._demo
        demo.phase("starting Kafka")
        self._config = write_settings(demo.home / "demo.toml")
        arguments = ["resolver", "up", "--home", str(demo.home), "--config", str(self._config)]
        resolver = demo.start("up", "the resolver", arguments, _RESOLVER_STOP_SECONDS)
        spark = lambda: resolver.first_match("(starting Spark)") or resolver.ready  # noqa: E731
        demo.until(spark, _RESOLVER_SECONDS, "Kafka does not start", f"see {resolver.log}")
        demo.phase("starting Spark and the resolver")
        demo.until_ready(resolver, _RESOLVER_SECONDS)
        servers = resolver.first_match(r"^ready: bootstrap=(\S+)")
        self._settings = Settings.load(self._config, {"bootstrap_servers": servers}, {})
        demo.tell(f"Kafka and the resolver are ready: {servers}")
        return resolver

    def _open_topics(self) -> None:
        """Make the topics, and read the records of earlier runs."""
        demo, names = self._demo, Names(self._settings.topic_prefix)
        admin = AdminClient(client_config(self._settings, log_level=0))
        ensure_topics(admin, self._settings, [GROUP])
        _make_real_topic(admin)
        self._half, check = names.half, names.check(GROUP)
        topics = [names.half, names.resolution, names.discarded, names.quarantine, check, TOPIC]
        self._reader = Reader(self._settings, topics)
        self._tally = Tally(names, check)
        demo.read(self._reader, self._tally)
        demo.until(lambda: self._reader.reached_end, _READ_SECONDS, "the topics can't be read")
        if earlier := self._tally.counts.begun:
            demo.tell(f"{earlier:,} orders of earlier runs are kept, and compared again")
        self._tally.count_from_here()
        demo.show_tally()

    def _start_agent(self) -> Process:
        listener = ["--group", GROUP, "--listener", "resolver.demo.shop:Orders"]
        arguments = ["resolver", "agent", *listener, *self._servers()]
        arguments += ["--config", str(self._config)]
        return self._demo.start("agent", "the agent", arguments, _STOP_SECONDS)

    def _start_shop(self) -> Process:
        """Start the shop and return when it is open."""
        arguments = ["resolver.demo.shop", *self._servers(), "--rate", str(self._rate)]
        shop = self._demo.start("shop", "the shop", arguments, _STOP_SECONDS)
        self._demo.until_ready(shop, _READY_SECONDS)
        self._state.shop = "is open"
        return shop

    def _servers(self) -> list[str]:
        return ["--bootstrap-servers", self._settings.bootstrap_servers]

    def _send(self, shop: Process) -> Process:
        """Let orders be placed, kill the shop now and then, and return the process that lives."""
        state = self._state
        self._demo.tell(f"the shop is open and takes {self._rate:g} orders a second")
        self._demo.phase("orders are placed")
        state.sending_since = time.monotonic()
        for kill in range(1, state.kills_planned + 1):
            self._send_until(state.seconds * kill / (state.kills_planned + 1))
            shop = self._kill(shop)
        self._send_until(state.seconds)
        state.sent_for, state.sending_since = state.sending, None
        return shop

    def _send_until(self, seconds: float) -> None:
        patience = seconds + _SPARE_SECONDS
        self._demo.until(lambda: self._state.sending >= seconds, patience, "time stands still")

    def _kill(self, shop: Process) -> Process:
        since = time.monotonic()
        self._state.kills += 1
        self._state.shop = "is down"
        self._demo.tell("kill -9 of the shop: what it had begun is left to the checks")
        self._demo.kill(shop, _DEATH_SECONDS)
        shop = self._start_shop()
        self._demo.tell(f"the shop is open again, after {time.monotonic() - since:.1f} s")
        return shop

    def _close(self, shop: Process) -> None:
        self._demo.phase("closing the shop")
        self._demo.stop(shop)
        self._state.shop = "is closed"

    def _wait_for_outcomes(self) -> None:
        self._demo.phase("waiting until nothing is pending")
        if self._demo.comes_true(self._all_ended, _PENDING_SECONDS):
            self._demo.tell("nothing is pending")
        else:
            pending = self._tally.pending
            self._demo.tell(f"after {_PENDING_SECONDS:.0f} s {pending:,} are still pending")

    def _all_ended(self) -> bool:
        return not self._tally.pending and self._reader.has_all_of(self._half)

    def _compare(self) -> Comparison:
        """Read the real topic from its beginning, and compare it with the database."""
        self._demo.phase("comparing what was delivered with the database")
        delivered: dict[str, list[Content]] = defaultdict(list)
        until = time.monotonic() + _READ_SECONDS
        with Reader(self._settings, [TOPIC]) as reader:
            while not reader.reached_end and time.monotonic() < until:
                for record in reader.read(0.1):
                    transaction_id, content = delivered_content(record)
                    delivered[transaction_id].append(content)
                self._demo.turn()
        orders = placed(self._demo.database)
        return compare(orders, delivered, self._tally.discarded_ids, self._tally.pending)

    def _wait_for_tables(self) -> None:
        """Let land catch up, so that the notebook has the last transactions too."""
        self._demo.phase("landing the rest in the tables")
        checkpoint = Home(self._demo.home).land_checkpoint
        read = {
            (topic, number): offset
            for (topic, number), offset in self._reader.offsets.items()
            if topic != TOPIC
        }
        if not self._demo.comes_true(lambda: has_landed(checkpoint, read), _LAND_SECONDS):
            self._demo.tell("the tables lack the end: `txresolver up` in this home lands it")


def _make_real_topic(admin: AdminClient) -> None:
    """Make the topic that consumers of orders read; its messages are kept without limit."""
    topic = NewTopic(TOPIC, _PARTITIONS, 1, config={"retention.ms": "-1"})
    for made in admin.create_topics([topic]).values():
        try:
            made.result(_READY_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    await_topics(admin, [TOPIC])  # creation returns before every broker knows it
