"""A world: Kafka, the resolver, an agent and a load, the judge watching; all in one folder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from ..demo.reading import Reader
from ..demo.shortened import clean_environment
from ..errors import FaultError
from ..home import Home
from ..kafka import admin_client
from ..protocol import Names
from ..settings import Settings
from ..topic_admin import await_topics, existing_topics
from ..topics import ensure_topics
from .clock import clock_environment
from .disk import SmallDisk
from .doomed import Doom
from .judge import Judge
from .kept import Kept
from .ledger import LoadLedger
from .load import GROUP, LEDGER, PARTITIONS, SMALL, SMALL_BYTES, TOPICS
from .process import Victim
from .remedy import heed
from .stopping import Interrupted

#: A JVM that lives for seconds only does better without its second compiler. An audit takes more
#: than the 48 MB that Java then has for code, and would be interpreted from there on.
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m -XX:+UseSerialGC"
#: Shortened, so that a round is quick: what is silent is asked after a second.
SHORTENED: Mapping[str, Any] = {
    "transaction_timeout_ms": 1_000,
    "transaction_check_interval_ms": 500,
    "check_backoff_max_ms": 1_000,
    "transaction_check_max": 4,
    "kafka_transaction_timeout_ms": 4_000,
    # To land is what costs most, and what no round waits for but those that kill it.
    "land_trigger_interval_ms": 5_000,
    "spark.driver.extraJavaOptions": _QUICK_JVM,
}
#: Until something must have happened, on a busy machine.
PATIENCE_SECONDS = 400.0
_TURN_SECONDS = 0.05
_STOP_SECONDS = 60.0
#: Until Kafka has ended a transaction of a resolver that is dead.
WHOLE_SECONDS = 60.0
#: How often the resolver may end by itself and be started again within a round.
_RESTARTS = 5
#: How often its start may be refused, each time with another thing to do.
_REFUSALS = 3
#: In the log of a resolver that has left something to land: a job by itself lands nothing.
_NOT_LANDED = "(not all has landed|^resolving: )"
_LAND = ("pipelines.land", "--available-now")


@dataclass(frozen=True)
class Scenery:
    """What is special about the worlds of a group."""

    #: Its disk is so small that it can be filled.
    small_disk: bool = False
    #: Kafka takes its time from a file.
    own_clock: bool = False


class World:
    """Everything that waits goes through `until`, in which the judge reads on.

    `lock` is a descriptor that all processes hold. A resolver that ends by itself is started
    again, as a supervisor would, and its last words are kept in `restarts`.
    """

    def __init__(
        self, home: Path, scenery: Scenery, rate: float, lock: int, told: threading.Event
    ) -> None:
        self.home = home
        self._scenery = scenery
        self.settings = Settings()
        self.disk: SmallDisk | None = None
        self.broker: Victim | None = None
        self.agent: Victim | None = None
        self.load: Victim | None = None
        self.resolver: Victim | None = None
        self.restarts: list[str] = []
        self._doom = home / "doom.json"
        self._kept_file = home / "kept.json"
        self.kept = Kept.read(self._kept_file)
        self._rate = rate
        self._lock = lock
        self._told = told
        self._logs = home / "logs"
        self._logs.mkdir(parents=True, exist_ok=True)
        self._count = len(list(self._logs.iterdir()))
        self._started: list[Victim] = []
        self._ledger_file = home / "ledger.db"
        names = Names()
        self.judge = Judge(LoadLedger(self._ledger_file), names)
        self._topics = [names.half, names.resolution, names.discarded, *TOPICS, SMALL]
        self._reader: Reader | None = None

    def __enter__(self) -> World:
        """Start all of it."""
        try:
            self._doom.unlink(missing_ok=True)
            if self._scenery.small_disk:
                self.disk = SmallDisk(self.resolver_home, self._logs / "disk.log")
            self.start_broker()
            self._make_topics()
            self.start_agent()
            self.start_load()
            self.start_heeding()
            self.until(lambda: self.judge.verdict.settled, "nothing is resolved")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        """Let nothing outlive it: kill -9 is what all of this is made for."""
        if self._reader is not None:
            self._reader.close()
        for process in reversed(self._started):
            process.end()
        if self.disk is not None:
            self.disk.end()

    def start_broker(self) -> None:
        """Start Kafka and return when it answers."""
        arguments = ["resolver", "broker", "--home", str(self.home)]
        clock = clock_environment(self.home) if self._scenery.own_clock else {}
        broker = self._start("broker", "Kafka", arguments, clock)
        self.until(lambda: broker.ready or broker.ended, f"Kafka does not start, see {broker.log}")
        broker.check()
        self.broker = broker
        servers = broker.said(r"^ready: bootstrap=(\S+)")
        self.settings = replace(self.settings, bootstrap_servers=servers)

    def start_agent(self) -> None:
        listener = ["--group", GROUP, "--listener", "resolver.faults.load:Answers"]
        self.agent = self._start("agent", "the agent", ["resolver", "agent", *listener, *self.sets])

    def start_load(self) -> None:
        arguments = ["--bootstrap-servers", self.settings.bootstrap_servers]
        rate = ["--rate", str(self._rate)]
        self.load = self._start("load", "the load", ["resolver.faults.load", *arguments, *rate])

    def start_resolver(self, *more: str, home: Path | None = None) -> Victim:
        """Start a resolver; it is the one from now on."""
        self.resolver = self.another_resolver(*more, home=home or self.resolver_home)
        return self.resolver

    def start_heeding(self) -> list[str]:
        """Start the resolver, doing what a refusal says, until it is ready; return what was said.

        Raises `FaultError` where a refusal names nothing to do.
        """
        said: list[str] = []
        more: list[str] = []
        while len(said) <= _REFUSALS:
            resolver = self.start_resolver(*more)
            self.resolver = None  # not to be started again as it was
            self.until(lambda: resolver.ready or resolver.ended, "the resolver does not start")  # noqa: B023
            if not resolver.ended:
                self.resolver = resolver
                return said
            resolver.end()
            said.append(resolver.last_words)
            more = heed(said[-1], self.resolver_home)
        raise FaultError(f"refused again and again: {said}")

    def another_resolver(self, *more: str, home: Path) -> Victim:
        """Start a resolver in a home, beside the one that is there."""
        return self._start_doomed("txresolver", "up", "--home", str(home), "--verbose", *more)

    def start_job(self) -> Victim:
        """Start the job by itself, which no home's lock keeps out; it is the one from now on."""
        checkpoint = Home(self.resolver_home).resolve_checkpoint
        self.resolver = self._start_doomed("resolve", "--checkpoint", str(checkpoint))
        return self.resolver

    def take_down(self, name: str) -> Victim:
        """Return a process that is about to be hit: its end is expected from now on."""
        process: Victim | None = getattr(self, name)
        if process is None:
            raise AssertionError(f"there is no {name}")
        setattr(self, name, None)
        return process

    def mark(self) -> None:
        """Say that now is the moment from which recovery is counted."""
        self.judge.count_from(time.time())

    def doom(self, doom: Doom) -> None:
        """Let the resolver be hit at a line of its log."""
        doom.write(self._doom)

    def stop(self, name: str) -> Victim:
        """Stop a process regularly; `FaultError` where it ends otherwise than it should."""
        process = self.take_down(name)
        status = process.stop(PATIENCE_SECONDS, self._read)
        if status != 0:
            raise FaultError(
                f"{process.name}, told to stop, ended with {status}: {process.last_words}"
            )
        return process

    def until(
        self, done: Callable[[], object], otherwise: str, seconds: float = PATIENCE_SECONDS
    ) -> None:
        """Wait for a condition; `FaultError` if it does not come true in time."""
        until = time.monotonic() + seconds
        while not done():
            if time.monotonic() > until:
                raise FaultError(f"{otherwise}, after {seconds:.0f} s")
            self._turn()

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._turn()

    def settle(self, owed: set[str]) -> None:
        """Wait until these halves have ended as they must; what has not is lost."""
        try:
            self.until(lambda: not owed & self.judge.open, "not settled")
        except FaultError:
            self.judge.give_up(owed)

    def see_whole(self) -> None:
        """See, while no resolver writes, that all was written together with its outcome.

        What is not visible yet is waited for: Kafka writes a transaction's end topic by topic.
        """
        self._read_to_end()
        try:
            self.until(lambda: not self.judge.apart(), "not whole", WHOLE_SECONDS)
        except FaultError as error:
            apart = ", ".join(sorted(self.judge.apart()))
            raise FaultError(f"without outcome, or without what goes with it: {apart}") from error

    def drain(self) -> None:
        """Let what was begun come to its end, load and resolver stop, and the tables have all."""
        self.stop("load")
        self._read()  # what the load wrote down last is awaited too
        self.settle(set(self.judge.open))
        is_left = self.stop("resolver").said(_NOT_LANDED)
        self._read_to_end()
        if is_left:
            self._land()

    def _land(self) -> None:
        """Let land have all that is stored, as its job by itself does."""
        home = Home(self.resolver_home)
        folders = ["--tables", str(home.tables), "--checkpoint", str(home.land_checkpoint)]
        land = self._start("land", "land", [*_LAND, *folders, *self.sets])
        self.until(lambda: land.ended, "land does not end")
        if land.exit_status != 0:
            raise FaultError(f"land ended with {land.exit_status}: {land.last_words}")

    def _read_to_end(self) -> None:
        """Read all that is there, by a new reader: one says only once where a partition ends."""
        since = None
        if self._reader is not None:
            since = self._reader.offsets
            self._reader.close()
        reader = self._reader = Reader(self.settings, self._topics, since)
        self.until(lambda: reader.reached_end, "the topics can't be read to their end")

    def _turn(self) -> None:
        if self._told.is_set():
            raise Interrupted
        for process in (self.broker, self.agent, self.load):
            if process is not None:
                process.check()
        if self.resolver is not None and self.resolver.ended:
            self.restarts.append(self.resolver.last_words)
            if len(self.restarts) > _RESTARTS:
                raise FaultError(f"the resolver ends again and again: {self.restarts[-1]}")
            self.start_resolver()
        self._read()

    def _read(self) -> None:
        if self._reader is None:
            time.sleep(_TURN_SECONDS)
        else:
            self.judge.take(self._reader.read(_TURN_SECONDS))

    def _make_topics(self) -> None:
        admin = admin_client(self.settings)
        ensure_topics(admin, self.settings, [GROUP])
        existing = existing_topics(admin)
        missing = [topic for topic in (*TOPICS, SMALL) if topic not in existing]
        if missing:
            small = {"max.message.bytes": str(SMALL_BYTES)}
            new = [
                NewTopic(topic, PARTITIONS, 1, config=small if topic == SMALL else {})
                for topic in missing
            ]
            for made in admin.create_topics(new).values():
                made.result(30)
            await_topics(admin, missing)
        self._read_to_end()

    def keep(self, kept: Kept) -> None:
        """Say where the resolver is and what its settings are, from its next start on."""
        kept.write(self._kept_file)
        self.kept = kept

    @property
    def resolver_home(self) -> Path:
        """The home of the rightful resolver."""
        return self.home / self.kept.resolver

    @property
    def tables(self) -> Path:
        """The folder of its tables."""
        return Home(self.resolver_home).tables

    @property
    def broker_home(self) -> Path:
        """The folder of Kafka's data."""
        return self.home / "broker"

    @property
    def sets(self) -> list[str]:
        values = {**SHORTENED, **self.kept.settings}
        sets = [f"--set={name}={value}" for name, value in values.items()]
        return ["--bootstrap-servers", self.settings.bootstrap_servers, *sets]

    def _start_doomed(self, *command: str) -> Victim:
        arguments = ["resolver.faults.doomed", str(self._doom), *command, *self.sets]
        return self._start("resolver", "the resolver", arguments)

    def _start(
        self, name: str, title: str, arguments: list[str], more: Mapping[str, str] | None = None
    ) -> Victim:
        self._count += 1
        self._started = [one for one in self._started if one.members()]
        log = self._logs / f"{self._count:04}-{name}.log"
        environment = {**clean_environment(), LEDGER: str(self._ledger_file), **(more or {})}
        is_on_disk = name in ("resolver", "land")
        prefix = self.disk.prefix if self.disk is not None and is_on_disk else ()
        process = Victim(
            title, arguments, self.home, log, environment, self._lock, _STOP_SECONDS, prefix
        )
        self._started.append(process)
        return process
