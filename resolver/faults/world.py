"""A world: Kafka, the resolver, an agent and a load, the judge watching; all in one folder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from ..demo.reading import Reader
from ..errors import FaultError
from ..home import Home
from ..protocol import Names
from ..settings import Settings
from .clock import clock_environment
from .disk import SmallDisk
from .doomed import Doom
from .judge import Judge
from .kept import Kept
from .ledger import LoadLedger
from .load import GROUP, SMALL, TOPICS, Fate
from .process import Victim
from .processes import Processes
from .remedy import heed
from .scenery import SHORTENED, Scenery
from .stopping import Interrupted
from .topics import make_topics

#: Until something must have happened, on a busy machine.
PATIENCE_SECONDS = 400.0
_TURN_SECONDS = 0.05
#: Until Kafka has ended a transaction of a resolver that is dead.
WHOLE_SECONDS = 60.0
#: How often the resolver may end by itself and be started again within a round.
_RESTARTS = 5
#: How often its start may be refused, each time with another thing to do.
_REFUSALS = 3
#: In the log of a resolver that has left something to land: a job by itself lands nothing.
_NOT_LANDED = "(not all has landed|^resolving: )"
_LAND = ("pipelines.land", "--available-now")


class World:
    """Everything that waits goes through `until`, in which the judge reads on.

    `lock` is a descriptor that all processes hold. A resolver that ends by itself is started
    again, as a supervisor would, and its last words are kept in `restarts`.
    """

    def __init__(
        self, home: Path, scenery: Scenery, rate: float, lock: int, told: threading.Event
    ) -> None:
        self.home = home
        self.scenery = scenery
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
        self._told = told
        ledger, names = home / "ledger.db", Names()
        self._processes = Processes(home, ledger, lock)
        self._ledger = LoadLedger(ledger)
        self.judge = Judge(self._ledger, names)
        self._topics = [names.half, names.resolution, names.discarded, *TOPICS, SMALL]
        self._reader: Reader | None = None

    def __enter__(self) -> World:
        """Start all of it."""
        try:
            self._doom.unlink(missing_ok=True)
            if self.scenery.small_disk:
                self.disk = SmallDisk(self.resolver_home, self._processes.logs / "disk.log")
            self.start_broker()
            make_topics(self.settings)
            self._read_to_end()
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
        """Let nothing outlive it."""
        if self._reader is not None:
            self._reader.close()
        self._processes.end()
        if self.disk is not None:
            self.disk.end()

    def start_broker(self) -> None:
        """Start Kafka and return when it answers."""
        arguments = ["resolver", "broker", "--home", str(self.home)]
        clock = clock_environment(self.home) if self.scenery.own_clock else {}
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

    def mark(self, by_check: bool = False) -> None:
        """Say that now is the moment from which recovery is counted; `by_check`: of checks."""
        self.judge.count_from(time.time(), by_check)

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

    def undeliverable(self) -> int:
        """Return how many messages the load has sent that their topic does not take."""
        return self._ledger.count(Fate.UNDELIVERABLE.name)

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
        return self._processes.start(name, title, arguments, self.disk, more)
