"""A single-node Kafka broker as a context manager."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ..errors import BrokerError
from .guard import Guarded
from .jars import kafka_classpath
from .java import find_java
from .locks import FileLock
from .ports import FILE as PORTS
from .ports import HOST, Ports, choose_again, ports_of
from .properties import DATA, FILE, Security, write_properties
from .recovery import needs_recovery, recover

#: Variable with the broker's JVM options, instead of "-Xms256m -Xmx1g".
HEAP_VARIABLE = "TXRESOLVER_BROKER_HEAP"
LOGGING = Path(__file__).with_name("log4j2.properties")

STARTUP_SECONDS = 120.0
FORMAT_SECONDS = 120.0
STOP_SECONDS = 20.0
#: Time in seconds to wait for a broker that is still stopping after its owner was killed.
DYING_SECONDS = 30.0
POLL_SECONDS = 0.1
TAIL_LINES = 20
MIN_FREE_BYTES = 256 * 1024 * 1024
META = f"{DATA}/meta.properties"
_TAKEN = "Address already in use"


class Broker:
    """A real Kafka broker, with all its data below `home`, for the time of a `with` block.

    It keeps its port and its data from start to start, and ends with this process, however the
    process ends. `port` is another port from now on. Without a port that it has kept, it takes
    `preferred` if that is free. A start takes `startup_seconds` at most, and needs `min_free_bytes`
    of free disk. The broker accepts every client of this machine, unless `security` says otherwise.

    Raises `BrokerError` with the remedy where it can't start.
    """

    def __init__(
        self,
        home: Path,
        port: int | None = None,
        *,
        preferred: int | None = None,
        startup_seconds: float = STARTUP_SECONDS,
        min_free_bytes: int = MIN_FREE_BYTES,
        security: Security = Security(),  # noqa: B008 - it is frozen
    ) -> None:
        self.home = Path(os.path.realpath(home))  # Path.resolve() fails at links in a circle
        self.log = self.home / "broker.log"
        self._wanted = port
        self._preferred = preferred
        self._startup_seconds = startup_seconds
        self._min_free_bytes = min_free_bytes
        self._security = security
        self._lock = FileLock(self.home / "lock")
        self._ports: Ports | None = None
        self._has_chosen = False
        self._is_prepared = False
        self._java = ""
        self._process: Guarded | None = None

    @property
    def bootstrap(self) -> str:
        """HOST:PORT for clients."""
        return f"{HOST}:{self._known_ports().kafka}"

    @property
    def pid(self) -> int:
        """The process id of the broker's Java."""
        if self._process is None:
            raise BrokerError(
                f"the broker in {self.home} is not running",
                remedy="call start(), or use it in a with block",
            )
        return self._process.pid

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker and return when it answers."""
        self.prepare()
        with self._stopping_on_failure():
            classpath = os.pathsep.join(map(str, kafka_classpath()))
            launch = partial(self._launch, self._java, classpath)
            self._start([self._java, "-cp", classpath], launch)

    def prepare(self) -> None:
        """Find Java, lock the home and take the ports, once. A full disk is refused here too."""
        if not self._is_prepared:
            with self._stopping_on_failure():
                self._java = str(find_java())
                self._prepare()
                self._is_prepared = True

    @contextmanager
    def _stopping_on_failure(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.stop()
            raise self._cannot_start(error) from error
        except BaseException:
            self.stop()
            raise

    def _start(self, java: list[str], launch: Callable[[str, str], Guarded]) -> None:
        ports = self._known_ports()
        if not (self.home / META).exists():  # written last by the format
            self._format(java)
        elif needs_recovery(self.home):
            recover(self.home, ports, launch, self._startup_seconds)
        self._process = launch(FILE, self.log.name)
        try:
            self._await_ready()
        except BrokerError:
            if not self._has_chosen or not any(_TAKEN in line for line in self._logged()):
                raise
            # Another broker's first start chose the same port in the same seconds.
            self._process.stop(0)
            self._keep_ports(choose_again(self.home))
            self._process = launch(FILE, self.log.name)
            self._await_ready()

    def stop(self) -> None:
        """Stop the broker: ask, then kill; does nothing if it isn't running."""
        if self._process is not None:
            self._process.stop(STOP_SECONDS)
            self._process = None
        self._is_prepared = False
        self._lock.release()

    def check(self) -> None:
        """Raise `BrokerError` if the broker has died."""
        if self._process is None:
            raise BrokerError(
                f"the broker in {self.home} is not running",
                remedy="call start(), or use it in a with block",
            )
        status = self._process.exit_status()
        if status is not None:
            raise self._explained(f"the broker died (exit status {status})")

    def wait(self) -> None:
        """Block until the broker dies, then raise `BrokerError`."""
        while True:
            self.check()
            time.sleep(POLL_SECONDS)

    def _prepare(self) -> None:
        """Lock the folder, check the free disk, choose the ports."""
        self.home.mkdir(parents=True, exist_ok=True)
        if not self._lock.acquire_after(DYING_SECONDS):
            raise BrokerError(
                f"process {self._lock.owner()} runs a broker in {self.home}",
                remedy="stop it, or use another home",
            )
        free = shutil.disk_usage(self.home).free
        if free < self._min_free_bytes:
            raise BrokerError(
                f"the disk of {self.home} is full: {free >> 20} MiB are free, the broker needs "
                f"{self._min_free_bytes >> 20}",
                remedy="make room, or use a home on another disk",
            )
        self._has_chosen = self._wanted is None and not (self.home / PORTS).exists()
        self._keep_ports(ports_of(self.home, self._wanted, self._preferred))

    def _keep_ports(self, ports: Ports) -> None:
        write_properties(self.home, ports, self._security)
        self._ports = ports

    def _known_ports(self) -> Ports:
        if self._ports is None:
            raise BrokerError(
                f"the broker in {self.home} has not been started",
                remedy="call start(), or use it in a with block",
            )
        return self._ports

    def _cannot_start(self, error: OSError) -> BrokerError:
        return BrokerError(f"the broker in {self.home} can't be started: {error}")

    def _format(self, java: list[str]) -> None:
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # Join the id to its option: an id that begins with a dash would be read as an option.
        arguments = ["format", "--standalone", f"--cluster-id={cluster_id}", "--config", FILE]
        arguments += self._security.format_arguments
        try:
            done = subprocess.run(
                [*java, "kafka.tools.StorageTool", *arguments],
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=FORMAT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise BrokerError(
                f"formatting {self.home / DATA} took longer than {FORMAT_SECONDS:.0f} s",
                remedy="see whether the machine is overloaded, or the disk",
            ) from error
        if done.returncode:
            output = (done.stdout + done.stderr).strip()
            cause, remedy = _cause(output)
            raise BrokerError(
                f"formatting {self.home / DATA} failed: {output}{cause}", remedy=remedy
            )

    def _launch(self, java: str, classpath: str, properties: str, log: str) -> Guarded:
        heap = os.environ.get(HEAP_VARIABLE) or "-Xms256m -Xmx1g"
        options = [
            *heap.split(),
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
            f"-Dbroker.log={log}",
        ]
        command = [java, *options, "-cp", classpath, "kafka.Kafka", properties]
        return Guarded(command, self.home, self.home / "broker.out", keep=(self._lock.fileno(),))

    def _await_ready(self) -> None:
        until = time.monotonic() + self._startup_seconds
        while not self._answers():
            self.check()
            if time.monotonic() > until:
                raise self._explained(
                    f"the broker did not come up within {self._startup_seconds:g} s"
                )
            time.sleep(POLL_SECONDS)

    def _answers(self) -> bool:
        """Whether the broker has registered itself: before this, it answers no client."""
        if self._ports is None:
            return False
        try:
            # Connect without a Kafka client first: the client would log each refused connection.
            socket.create_connection((HOST, self._ports.kafka), timeout=1).close()
            login = {"bootstrap.servers": self.bootstrap, **self._security.client}
            metadata = AdminClient({**login, "log_level": 0}).list_topics(timeout=2)
            # Compare the ids: another broker may have taken the port in the same seconds.
            return bool(metadata.brokers) and metadata.cluster_id == self._cluster_id()
        except (OSError, KafkaException):
            return False

    def _cluster_id(self) -> str:
        """Return the id that the home was formatted with."""
        noted = (self.home / META).read_text().splitlines()
        return next(line for line in noted if line.startswith("cluster.id=")).partition("=")[2]

    def _explained(self, failure: str) -> BrokerError:
        """Return the error with the end of the log, and the remedy where its cause is known."""
        lines = self._logged()
        tail = "\n  ".join(lines[-TAIL_LINES:]) or "(nothing)"
        cause, remedy = _cause(tail)
        return BrokerError(f"{failure}. The end of {self.log}:\n  {tail}{cause}", remedy=remedy)

    def _logged(self) -> list[str]:
        return [line for file in ("broker.out", "broker.log") for line in self._lines(file)]

    def _lines(self, file: str) -> list[str]:
        try:
            with (self.home / file).open(errors="replace") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(0, size - 64 * 1024))
                return log.read().splitlines()
        except OSError:
            return []


def _cause(output: str) -> tuple[str, str]:
    """Return the cause, as a line more, and the remedy; both are empty if it is not known."""
    if "No space left on device" in output:
        return "\nThe disk is full", "make room, or use a home on another disk"
    if _TAKEN in output:
        return "\nAnother process took the port", "stop it, or give another with --port"
    if "OutOfMemoryError" in output:
        return "\nThe heap is too small", f"set {HEAP_VARIABLE}, for example to '-Xmx2g'"
    return "", ""
