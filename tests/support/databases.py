"""Real database servers for tests: clusters of their own, on a socket in a folder of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy
from sqlalchemy.exc import OperationalError

from resolver.broker.guard import Guarded
from tests.support.patience import PATIENCE_SECONDS

_STOP_SECONDS = 15.0
_DEBIAN = Path("/usr/lib/postgresql")


@dataclass(frozen=True)
class Server:
    """A running server; `url` leads to a database that is always there."""

    url: sqlalchemy.URL

    def new_database(self) -> str:
        """Make an empty database, return its URL."""
        name = f"t{uuid.uuid4().hex[:12]}"
        engine = sqlalchemy.create_engine(self.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        engine.dispose()
        return self.url.set(database=name).render_as_string()


@contextmanager
def postgresql() -> Iterator[Server]:
    """Run a PostgreSQL without TCP; as root by the user `postgres`, as it refuses root."""
    programs = _postgresql_programs()
    as_user = _as_postgres() if os.geteuid() == 0 else []
    with _folder("tx-postgresql-") as folder:
        if as_user:
            shutil.chown(folder, "postgres")
        data = str(folder / "data")
        made = ["initdb", "-D", data, "-A", "trust", "-U", "test", "-E", "UTF8", "--no-sync"]
        _run([*as_user, programs / made[0], *made[1:], "--locale=C.UTF-8"], folder)
        options = ["-k", str(folder), "-c", "listen_addresses=", "-c", "fsync=off"]
        command: list[str | Path] = [*as_user, programs / "postgres", "-D", data, *options]
        query = {"host": str(folder)}
        url = sqlalchemy.URL.create("postgresql+psycopg", "test", database="postgres", query=query)
        with _running(command, folder, url) as server:
            try:
                yield server
            finally:
                # SIGTERM, which comes after this, would wait for clients.
                stop = ["stop", "-D", data, "-m", "fast", "-w"]
                _run([*as_user, programs / "pg_ctl", *stop], folder)


@contextmanager
def mariadb() -> Iterator[Server]:
    """Run a MariaDB without TCP, system tables and users; nobody else reaches its folder."""
    program = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    assert program, "no mariadbd: run scripts/setup --tests"
    with _folder("tx-mariadb-") as folder:
        (folder / "data").mkdir()
        socket = folder / "socket"
        # mariadbd refuses to run as root unless it is told to.
        as_root = ["--user=root"] if os.geteuid() == 0 else []
        options = ["--no-defaults", *as_root, f"--datadir={folder / 'data'}"]
        options += [f"--socket={socket}", "--skip-networking", "--skip-grant-tables"]
        options += ["--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=8M"]
        query = {"unix_socket": str(socket)}
        url = sqlalchemy.URL.create("mysql+pymysql", "root", host="localhost", query=query)
        with _running([program, *options], folder, url) as server:
            yield server


def _postgresql_programs() -> Path:
    """Return the folder of the newest PostgreSQL's programs."""
    versions = sorted(_DEBIAN.glob("*/bin/postgres"), key=lambda file: float(file.parts[-3]))
    program = versions[-1] if versions else shutil.which("postgres")
    assert program, "no PostgreSQL: run scripts/setup --tests"
    return Path(program).resolve().parent


def _as_postgres() -> list[str | Path]:
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]


@contextmanager
def _folder(prefix: str) -> Iterator[Path]:
    # Not below pytest's: a socket's path has 107 characters, and `postgres` can't enter that.
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(command: Sequence[str | Path], folder: Path, url: sqlalchemy.URL) -> Iterator[Server]:
    """Run a server that ends with this block, and with this process if that is killed."""
    log = folder / "log"
    process = Guarded([str(word) for word in command], folder, log, ())
    try:
        _wait_until_ready(process, url, log)
        yield Server(url)
    finally:
        process.stop(_STOP_SECONDS)


def _wait_until_ready(process: Guarded, url: sqlalchemy.URL, log: Path) -> None:
    engine = sqlalchemy.create_engine(url)
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            engine.connect().close()
            break
        except OperationalError:
            status = process.exit_status()
            assert status is None and time.monotonic() < until, log.read_text()
            time.sleep(0.05)
    engine.dispose()


def _run(command: Sequence[str | Path], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
