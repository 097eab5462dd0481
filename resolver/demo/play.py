"""The play: what is started, what is killed when, and when it has been seen to its end."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ..home import Home
from ..kafka import client_config
from ..protocol import Names
from ..settings import Settings
from ..topic_admin import await_topics
from ..topics import ensure_topics
from .comparison import Comparison, compare
from .delivered import delivered_content
from .landed import has_landed
from .ledger import Ledger
from .orders import GROUP, TOPIC, Content
from .processes import Process
from .reading import Reader
from .shortened import write_settings
from .stage import Stage

_RESOLVER_SECONDS = 300.0
_READY_SECONDS = 90.0
_READ_SECONDS = 120.0
_PENDING_SECONDS = 120.0
_LAND_SECONDS = 120.0
_DEATH_SECONDS = 30.0
_STOP_SECONDS = 60.0
#: The resolver's own limit for its last batches, then Spark's and the broker's ends.
_RESOLVER_STOP_SECONDS = 150.0
#: Beyond the time of sending: a machine may be asleep for a while.
_SPARE_SECONDS = 600.0
_SECONDS_PER_KILL = 20.0
_PARTITIONS = 4


def kills_in(seconds: float) -> int:
    """Return how often the shop is killed in a demo of this length."""
    return max(1, round(seconds / _SECONDS_PER_KILL))


class Play:
    """The demo's story, told on a stage."""

    def __init__(self, stage: Stage, rate: float) -> None:
        self._stage = stage
        self._scene = stage.scene
        self._rate = rate

    def run(self) -> Comparison:
        """Show it all; raises `DemoError`, `Interrupted`."""
        resolver = self._start_resolver()
        self._open_topics()
        agent = self._start_agent()
        shop = self._send(self._start_shop())
        self._close(shop)
        self._wait_for_outcomes()
        result = self._compare()
        self._wait_for_tables()
        self._stage.phase("stopping Kafka and the resolver")
        self._stage.stop_reading()
        self._stage.stop(agent)
        self._stage.stop(resolver)
        return result

    def _start_resolver(self) -> Process:
        stage = self._stage
        stage.phase("starting Kafka")
        self._config = write_settings(stage.home / "demo.toml")
        arguments = ["resolver", "up", "--home", str(stage.home), "--config", str(self._config)]
        resolver = stage.start("up", "the resolver", arguments, _RESOLVER_STOP_SECONDS)
        spark = lambda: resolver.said("(starting Spark)") or resolver.ready  # noqa: E731
        stage.until(spark, _RESOLVER_SECONDS, f"Kafka does not start, see {resolver.log}")
        stage.phase("starting Spark and the resolver")
        stage.until_ready(resolver, _RESOLVER_SECONDS)
        servers = resolver.said(r"^ready: bootstrap=(\S+)")
        self._settings = Settings.load(self._config, {"bootstrap_servers": servers}, {})
        stage.tell(f"Kafka and the resolver are ready: {servers}")
        return resolver

    def _open_topics(self) -> None:
        """Make the topics, and read what earlier runs have left in them."""
        stage, names = self._stage, Names(self._settings.topic_prefix)
        admin = AdminClient(client_config(self._settings, log_level=0))
        ensure_topics(admin, self._settings, [GROUP])
        _make_real_topic(admin)
        self._half, check = names.half, names.check(GROUP)
        topics = [names.half, names.resolution, names.discarded, names.quarantine, check, TOPIC]
        self._reader = Reader(self._settings, topics)
        self._ledger = Ledger(names, check)
        stage.read(self._reader, self._ledger)
        stage.until(lambda: self._reader.reached_end, _READ_SECONDS, "the topics can't be read")
        earlier = stage.count_from_here().begun
        if earlier:
            stage.tell(f"{earlier:,} orders of earlier runs are kept, and compared again")

    def _start_agent(self) -> Process:
        listener = ["--group", GROUP, "--listener", "resolver.demo.shop:Orders"]
        arguments = ["resolver", "agent", *listener, *self._servers()]
        return self._stage.start(
            "agent", "the agent", [*arguments, "--config", str(self._config)], _STOP_SECONDS
        )

    def _start_shop(self) -> Process:
        """Start the shop and return when it is open."""
        arguments = ["resolver.demo.shop", *self._servers(), "--rate", str(self._rate)]
        shop = self._stage.start("shop", "the shop", arguments, _STOP_SECONDS)
        self._stage.until_ready(shop, _READY_SECONDS)
        self._scene.shop = "is open"
        return shop

    def _send(self, shop: Process) -> Process:
        """Let orders be placed, and kill the shop now and then; return the one that lives."""
        scene = self._scene
        self._stage.tell(f"the shop is open and takes {self._rate:g} orders a second")
        self._stage.phase("orders are placed")
        scene.begin_sending()
        for kill in range(1, scene.kills_planned + 1):
            self._send_until(scene.seconds * kill / (scene.kills_planned + 1))
            shop = self._kill(shop)
        self._send_until(scene.seconds)
        scene.end_sending()
        return shop

    def _send_until(self, seconds: float) -> None:
        patience = seconds + _SPARE_SECONDS
        self._stage.until(lambda: self._scene.sending >= seconds, patience, "time stands still")

    def _kill(self, shop: Process) -> Process:
        since = time.monotonic()
        self._scene.kills += 1
        self._scene.shop = "is down"
        self._stage.tell("kill -9 of the shop: what it had begun is left to the checks")
        self._stage.kill(shop, _DEATH_SECONDS)
        shop = self._start_shop()
        self._stage.tell(f"the shop is open again, after {time.monotonic() - since:.1f} s")
        return shop

    def _close(self, shop: Process) -> None:
        self._stage.phase("closing the shop")
        self._stage.stop(shop)
        self._scene.shop = "is closed"

    def _wait_for_outcomes(self) -> None:
        self._stage.phase("waiting until nothing is pending")
        self._in_time(self._all_ended, _PENDING_SECONDS)
        left = self._ledger.pending
        waited = f"after {_PENDING_SECONDS:.0f} s {left:,} are still pending"
        self._stage.tell(waited if left else "nothing is pending")

    def _all_ended(self) -> bool:
        return not self._ledger.pending and self._reader.has_all_of(self._half)

    def _compare(self) -> Comparison:
        """Read the real topic anew and compare it with the database."""
        self._stage.phase("comparing what was delivered with the database")
        delivered: dict[str, list[Content]] = defaultdict(list)
        until = time.monotonic() + _READ_SECONDS
        with Reader(self._settings, [TOPIC]) as reader:
            while not reader.reached_end and time.monotonic() < until:
                for record in reader.read(0.1):
                    transaction_id, content = delivered_content(record)
                    delivered[transaction_id].append(content)
                self._stage.turn()
        placed = self._stage.database.placed()
        return compare(placed, delivered, self._ledger.discarded_ids, self._ledger.pending)

    def _wait_for_tables(self) -> None:
        """Let land catch up, so that the notebook has the end of the story too."""
        self._stage.phase("landing the rest in the tables")
        checkpoint = Home(self._stage.home).land_checkpoint
        read = {at: offset for at, offset in self._reader.offsets.items() if at[0] != TOPIC}
        if not self._in_time(lambda: has_landed(checkpoint, read), _LAND_SECONDS):
            self._stage.tell("the tables lack the end: `txresolver up` in this home lands it")

    def _in_time(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait for what the demo can go on without, and return whether it came."""
        until = time.monotonic() + seconds
        came = False
        while not came and time.monotonic() < until:
            self._stage.turn()
            came = done()
        return came

    def _servers(self) -> list[str]:
        return ["--bootstrap-servers", self._settings.bootstrap_servers]


def _make_real_topic(admin: AdminClient) -> None:
    """Make the topic that consumers of orders read; what is delivered there is kept for ever."""
    topic = NewTopic(TOPIC, _PARTITIONS, 1, config={"retention.ms": "-1"})
    for made in admin.create_topics([topic]).values():
        try:
            made.result(_READY_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    await_topics(admin, [TOPIC])  # making one returns before its metadata are everywhere
