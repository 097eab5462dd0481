"""A world: Kafka, the resolver, an agent and a load, the judge watching; all in one folder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from resolver.demo.reading import Reader
from resolver.protocol import Names
from resolver.settings import Settings
from resolver.up.home import Home
from tests.support.patience import PATIENCE_SECONDS, WHOLE_RUN_SECONDS

from .clock import clock_environment
from .cluster import Cluster
from .disk import SmallDisk
from .doomed import Doom
from .fault_error import FaultError
from .history import History
from .judge import Judge
from .kept import Kept
from .load import ALONE, FORBIDDEN, GROUP, PARTITIONS, PERMITTED, SMALL, TOPICS, Fate
from .network.control import Control
from .network.listeners import PRODUCERS, RESOLVER, fronts_of
from .power import preloaded
from .process import Victim
from .processes import Processes
from .remedy import follow
from .sent_log import SentLog
from .stopping import Interrupted
from .topics import make_topics
from .world_kind import WorldKind

#: Until the resolver is ready: it has landed once by then, which takes most of a busy machine.
_START_SECONDS = WHOLE_RUN_SECONDS
_TURN_SECONDS = 0.05
#: Until Kafka has ended a transaction of a resolver that is dead.
WHOLE_SECONDS = 60.0
#: How often the resolver may end by itself and be started again within a round.
_RESTARTS = 5
#: How often its start may be refused, each time with another thing to do.
_REFUSALS = 3
#: In the log of a resolver that has left something to land: a job by itself lands nothing.
_NOT_LANDED = "(not all has landed|^resolving: )"
#: What the judge reads a cluster by: it is not to be what takes long to find a new leader.
_QUICK_READER = {"topic.metadata.refresh.interval.ms": "1000", "socket.timeout.ms": "10000"}
#: The node of a cluster that alone has the topic ALONE.
LONELY = 3
_LAND = ("pipelines.land", "--available-now")


class World:
    """Everything that waits goes through `until`, in which the judge reads on.

    `lock` is a descriptor that all processes hold. A resolver that ends by itself is started
    again, as a supervisor would, and its last words are kept in `restarts`.
    """

    def __init__(
        self, home: Path, kind: WorldKind, rate: float, lock: int, stop_requested: threading.Event
    ) -> None:
        self.home = home
        self.kind = kind
        self.settings = Settings()
        self.disk: SmallDisk | None = None
        self.broker: Victim | None = None
        self.proxy: Victim | None = None
        self.cluster: Cluster | None = None
        self.agent: Victim | None = None
        self.load: Victim | None = None
        self.resolver: Victim | None = None
        self.restarts: list[str] = []
        self._doom = home / "doom.json"
        self._kept_file = home / "kept.json"
        self._config = home / "resolver.toml"
        home.mkdir(parents=True, exist_ok=True)
        self._config.write_text(PERMITTED)
        self.kept = Kept.read(self._kept_file)
        self._rate = rate
        self._stop_requested = stop_requested
        sent_log_file, names = home / "ledger.db", Names()
        self._lock = lock
        self._processes = Processes(home, sent_log_file, lock)
        self._sent_log = SentLog(sent_log_file)
        self.judge = Judge(self._sent_log, names)
        self._history = History(home / "history.edn", self._sent_log)
        self._topics = [names.half, names.resolution, names.discarded, *TOPICS, SMALL, FORBIDDEN]
        self._reader: Reader | None = None

    def __enter__(self) -> World:
        """Start all of it."""
        try:
            self._doom.unlink(missing_ok=True)
            if self.kind.small_disk:
                self.disk = SmallDisk(self.resolver_home, self._processes.logs / "disk.log")
            if self.kind.proxied:
                self._start_proxy()
            if self.kind.cluster:
                self._start_cluster()
            else:
                self.start_broker()
            make_topics(self.settings)
            if self.cluster is not None:
                self.until(partial(self.cluster.knows, self._topics), "a node lacks topics")
            self._read_to_end()
            self._start_clients()
            self.until(lambda: self.judge.verdict.settled, "nothing is resolved")
        except BaseException:
            self._end()
            raise
        return self

    def _start_clients(self) -> None:
        self.start_agent()
        self.start_load()
        self.start_following_refusals()

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        """Let nothing outlive it."""
        self._history.end(is_drained=False)
        if self._reader is not None:
            self._reader.close()
        self._processes.end()
        if self.cluster is not None:
            self.cluster.stop()
        if self.disk is not None:
            self.disk.end()

    def start_broker(self) -> None:
        """Start Kafka and return when it answers."""
        arguments = ["resolver", "broker", "--home", str(self.home)]
        if self.kind.proxied:
            arguments = ["tests.faults.network.listeners", str(self.home)]
        clock = clock_environment(self.home) if self.kind.own_clock else {}
        broker = self._start("broker", "Kafka", arguments, clock)
        self.until(lambda: broker.ready or broker.ended, f"Kafka does not start, see {broker.log}")
        broker.check()
        self.broker = broker
        servers = broker.first_match(r"^ready: bootstrap=(\S+)")
        self.settings = replace(self.settings, bootstrap_servers=servers)

    def _start_proxy(self) -> None:
        fronts = [str(front) for front in fronts_of(self.broker_home).values()]
        proxy = self._start("proxy", "the proxy", ["tests.faults.network.proxy", *fronts])
        self.until(lambda: proxy.ready or proxy.ended, f"the proxy does not start, see {proxy.log}")
        self.proxy = proxy

    @property
    def control(self) -> Control:
        """The proxy's control."""
        if self.proxy is None:
            raise AssertionError("this world has no proxy")
        return Control(int(self.proxy.first_match(r"^ready: control=(\d+)")))

    def _start_cluster(self) -> None:
        """Start Kafka's three nodes, and make the topic that one of them has alone."""
        cluster = self.cluster = Cluster(
            self.home / "cluster",
            links=True,
            keep=(self._lock,),
            preload=preloaded,
        )
        cluster.start()
        self.settings = replace(
            self.settings,
            bootstrap_servers=cluster.bootstrap,
            replication_factor=self.kind.settings["replication_factor"],
            kafka=_QUICK_READER,
        )
        if not cluster.knows([ALONE]):
            cluster.make_topic(ALONE, LONELY, partitions=PARTITIONS)
        self._topics.append(ALONE)

    def start_agent(self) -> None:
        listener = ["--group", GROUP, "--listener", "tests.faults.load:Answers"]
        command = ["resolver", "agent", *listener, *self._sets_of(PRODUCERS)]
        self.agent = self._start("agent", "the agent", command)

    def start_load(self, *more: str) -> None:
        arguments = ["--bootstrap-servers", self.servers_of(PRODUCERS)]
        arguments += ["--rate", str(self._rate), "--fast", str(self.kind.fast), *more]
        self.load = self._start("load", "the load", ["tests.faults.load", *arguments])

    def start_resolver(self, *more: str, home: Path | None = None) -> Victim:
        """Start a resolver; it is the one from now on."""
        self.resolver = self.another_resolver(*more, home=home or self.resolver_home)
        return self.resolver

    def start_following_refusals(self) -> list[str]:
        """Start the resolver, doing what a refusal says, until it is ready; return the refusals.

        Raises `FaultError` where a refusal names nothing to do.
        """
        refusals: list[str] = []
        more: list[str] = []
        while len(refusals) <= _REFUSALS:
            resolver = self.start_resolver(*more)
            self.resolver = None  # not to be started again as it was
            self.until(
                lambda: resolver.ready or resolver.ended,  # noqa: B023
                "the resolver does not start",
                _START_SECONDS,
            )
            if not resolver.ended:
                self.resolver = resolver
                return refusals
            resolver.end()
            refusals.append(resolver.last_words)
            more = follow(refusals[-1], self.resolver_home)
        raise FaultError(f"refused again and again: {refusals}")

    def another_resolver(self, *more: str, home: Path) -> Victim:
        """Start a resolver in a home, beside the one that is there."""
        return self._start_doomed("txresolver", "up", "--home", str(home), "--verbose", *more)

    def start_job(self) -> Victim:
        """Start the job by itself, which no home's lock keeps out; it is the one from now on."""
        checkpoint = Home(self.resolver_home).resolve_checkpoint
        self.resolver = self._start_doomed("resolve", "--checkpoint", str(checkpoint), "--verbose")
        return self.resolver

    def take_down(self, name: str) -> Victim:
        """Return a process that is about to be hit: its end is expected from now on."""
        process: Victim | None = getattr(self, name)
        if process is None:
            raise AssertionError(f"there is no {name}")
        setattr(self, name, None)
        return process

    def mark(self, by_check: bool = False) -> None:
        """Say that now is the moment from which recovery is counted; `by_check`: of checks.

        With a cluster it is not over before each queue and each real topic flows.
        """
        queues = map(str, range(self.settings.queues))
        lanes = frozenset([*queues, *TOPICS] if self.kind.cluster else [])
        self.judge.count_from(time.time(), by_check, lanes)

    def doom(self, doom: Doom) -> None:
        """Let the resolver be hit at a line of its log."""
        doom.write(self._doom)

    def stop(self, name: str) -> Victim:
        """Stop a process regularly; `FaultError` where it ends otherwise than it should."""
        process = self.take_down(name)
        # A process that has just started is killed by the signal: it has no handler yet.
        self.until(lambda: process.ready or process.ended, f"{process.name} does not start")
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

    def settle(self, owed: set[str], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until these halves have ended as they must; what has not is lost."""
        try:
            self.until(lambda: not owed & self.judge.open, "not settled", seconds)
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
        is_left = self.stop("resolver").first_match(_NOT_LANDED)
        self._read_to_end()
        if is_left:
            self._land()
        self._history.end(is_drained=True)

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
        if self._stop_requested.is_set():
            raise Interrupted
        for process in (self.proxy, self.broker, self.agent, self.load):
            if process is not None:
                process.check()
        if self.cluster is not None:
            self.cluster.check()
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
            reads = self._reader.read(_TURN_SECONDS)
            self.judge.take(reads)
            self._history.take(reads)

    def committed(self) -> int:
        """Return how many messages of an ordering key the load has committed."""
        return self._sent_log.count_committed()

    def undeliverable(self) -> int:
        """Return how many messages the load has sent that their topic does not take."""
        return self._sent_log.count(Fate.UNDELIVERABLE.name)

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
        """Return the options of a command whose connections no fault hits."""
        return self._sets_of(None)

    def _sets_of(self, side: str | None) -> list[str]:
        values = {**self.kind.settings, **self.kept.settings}
        sets = [f"--set={name}={value}" for name, value in values.items()]
        config = f"--config={self._config}"
        return ["--bootstrap-servers", self.servers_of(side), config, *sets]

    def servers_of(self, side: str | None) -> str:
        """Return where a side finds Kafka: behind the proxy, if there is one."""
        if side is None or not self.kind.proxied:
            return self.settings.bootstrap_servers
        return fronts_of(self.broker_home)[side].servers

    def _start_doomed(self, *command: str) -> Victim:
        sets = self._sets_of(RESOLVER)
        arguments = ["tests.faults.doomed", str(self._doom), *command, *sets]
        return self._start("resolver", "the resolver", arguments)

    def _start(
        self, name: str, title: str, arguments: list[str], more: Mapping[str, str] | None = None
    ) -> Victim:
        return self._processes.start(name, title, arguments, self.disk, more)
