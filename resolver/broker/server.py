"""A single-node Kafka broker as a context manager."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from functools import partial
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ..errors import BrokerError
from ..locks import FileLock
from .guard import Guarded
from .jars import kafka_classpath
from .java import find_java
from .ports import HOST, Ports, ports_of
from .properties import DATA, FILE, Security, write_properties
from .recovery import needs_recovery, recover

#: JVM options of the broker, instead of "-Xms256m -Xmx1g".
HEAP_VARIABLE = "TXRESOLVER_BROKER_HEAP"
LOGGING = Path(__file__).with_name("log4j2.properties")

STARTUP_SECONDS = 120.0
FORMAT_SECONDS = 120.0
STOP_SECONDS = 20.0
#: A broker whose owner was killed may still be stopping.
DYING_SECONDS = 30.0
POLL_SECONDS = 0.1
TAIL_LINES = 20
MIN_FREE_BYTES = 256 * 1024 * 1024


class Broker:
    """A real Kafka broker, all its data below `home`, for as long as the `with` lasts.

    It keeps its port and its data from start to start, and ends with this process, however
    that ends. `startup_seconds` and `min_free_bytes` bound what a start may take and leave. It
    takes every client of this machine, unless `security` says otherwise.

    Raises BrokerError where it can't start, with what to do about it.
    """

    def __init__(
        self,
        home: Path,
        port: int | None = None,
        *,
        startup_seconds: float = STARTUP_SECONDS,
        min_free_bytes: int = MIN_FREE_BYTES,
        security: Security = Security(),  # noqa: B008 - it is frozen
    ) -> None:
        self.home = home.resolve()
        self.log = self.home / "broker.log"
        self._wanted = port
        self._startup_seconds = startup_seconds
        self._min_free_bytes = min_free_bytes
        self._security = security
        self._lock = FileLock(self.home / "lock")
        self._ports: Ports | None = None
        self._process: Guarded | None = None

    @property
    def bootstrap(self) -> str:
        """HOST:PORT for clients."""
        if self._ports is None:
            raise BrokerError(f"the broker in {self.home} has not been started")
        return f"{HOST}:{self._ports.kafka}"

    @property
    def pid(self) -> int:
        """The process id of the broker's Java."""
        if self._process is None:
            raise BrokerError(f"the broker in {self.home} is not running")
        return self._process.pid

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker and return when it answers."""
        java = find_java()
        classpath = os.pathsep.join(map(str, kafka_classpath()))
        try:
            ports = self._prepare()
            launch = partial(self._launch, str(java), classpath)
            if not (self.home / DATA / "meta.properties").exists():  # written last by the format
                self._format([str(java), "-cp", classpath])
            elif needs_recovery(self.home):
                recover(self.home, ports, launch, self._startup_seconds)
            self._process = launch(FILE, self.log.name)
            self._await_ready()
        except OSError as error:
            self.stop()
            raise BrokerError(f"the broker in {self.home} can't be started: {error}") from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the broker: ask, then kill; does nothing if it isn't running."""
        if self._process is not None:
            self._process.stop(STOP_SECONDS)
            self._process = None
        self._lock.release()

    def check(self) -> None:
        """Raise BrokerError if the broker has died."""
        if self._process is None:
            raise BrokerError(f"the broker in {self.home} is not running")
        status = self._process.exit_status()
        if status is not None:
            raise BrokerError(f"the broker died (exit status {status}). {self._explained()}")

    def wait(self) -> None:
        """Block until the broker dies, then raise BrokerError."""
        while True:
            self.check()
            time.sleep(POLL_SECONDS)

    def _prepare(self) -> Ports:
        """Take the folder, see that there is room, choose the ports."""
        self.home.mkdir(parents=True, exist_ok=True)
        if not self._lock.acquire_after(DYING_SECONDS):
            raise BrokerError(
                f"process {self._lock.owner()} runs a broker in {self.home}: stop it, "
                "or use another home"
            )
        free = shutil.disk_usage(self.home).free
        if free < self._min_free_bytes:
            raise BrokerError(
                f"the disk of {self.home} is full: {free >> 20} MiB are free, the broker needs "
                f"{self._min_free_bytes >> 20}. Make room, or use a home on another disk"
            )
        self._ports = ports_of(self.home, self._wanted)
        write_properties(self.home, self._ports, self._security)
        return self._ports

    def _format(self, java: list[str]) -> None:
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # An id that began with a dash would be read as an option.
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
                f"formatting {self.home / DATA} took longer than {FORMAT_SECONDS:.0f} s; "
                "is the machine overloaded, or the disk?"
            ) from error
        if done.returncode:
            said = (done.stdout + done.stderr).strip()
            raise BrokerError(f"formatting {self.home / DATA} failed: {said}{_remedy(said)}")

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
                raise BrokerError(
                    f"the broker did not come up within {self._startup_seconds:g} s. "
                    f"{self._explained()}"
                )
            time.sleep(POLL_SECONDS)

    def _answers(self) -> bool:
        """Whether the broker has registered itself: before, it answers no client."""
        if self._ports is None:
            return False
        try:
            # First without a client of Kafka, which would log each refused connection.
            socket.create_connection((HOST, self._ports.kafka), timeout=1).close()
            login = {"bootstrap.servers": self.bootstrap, **self._security.client}
            admin = AdminClient({**login, "log_level": 0})
            return bool(admin.list_topics(timeout=2).brokers)
        except (OSError, KafkaException):
            return False

    def _explained(self) -> str:
        """Return what the log's tail says, and the remedy for what it is known to say."""
        lines = [line for file in ("broker.out", "broker.log") for line in self._lines(file)]
        said = "\n  ".join(lines[-TAIL_LINES:]) or "(nothing)"
        return f"The end of {self.log}:\n  {said}{_remedy(said)}"

    def _lines(self, file: str) -> list[str]:
        try:
            with (self.home / file).open(errors="replace") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(0, size - 64 * 1024))
                return log.read().splitlines()
        except OSError:
            return []


def _remedy(said: str) -> str:
    if "No space left on device" in said:
        return "\nThe disk is full: make room, or use a home on another disk."
    if "Address already in use" in said:
        return "\nAnother process took the port: stop it, or give another with --port."
    if "OutOfMemoryError" in said:
        return f"\nThe heap is too small: set {HEAP_VARIABLE}, for example to '-Xmx2g'."
    return ""
