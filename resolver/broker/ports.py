"""The broker's two ports: chosen once, then kept, so that clients find it after a restart."""

from __future__ import annotations

import json
import random
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import BrokerError

HOST = "127.0.0.1"
#: Port that everybody expects of Kafka; a home takes it at its first start if it is free.
KAFKA_PORT = 9092
# Ports below the range that systems give to outgoing connections. Any program may take a port of
# that range while the broker is down.
CHOICES = range(20_000, 32_000)
FILE = "ports.json"
_MOMENT_SECONDS = 3.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Ports:
    """The port for clients, and the port on which the broker talks to its own controller."""

    kafka: int
    controller: int


def ports_of(home: Path, wanted: int | None, preferred: int | None = None) -> Ports:
    """Return the ports that `home` has kept, or choose and keep them; both are free.

    A home without ports takes `preferred` for clients, if that is free. Raises `BrokerError` if the
    port for clients is `wanted` or kept, and taken.
    """
    file = home / FILE
    kept = _read(file)
    kafka = wanted or (kept.kafka if kept else _chosen(preferred))
    if not _comes_free(kafka):
        raise _taken(home, kafka, wanted)
    controller = kept.controller if kept else 0
    # Choose the controller's port again if it is taken: only the broker itself knows it.
    if not controller or controller == kafka or not _is_free(controller):
        controller = free_port(besides=kafka)
    ports = Ports(kafka, controller)
    if ports != kept:
        _write(file, ports)
    return ports


def kept_bootstrap(home: Path) -> str | None:
    """Return HOST:PORT of a folder's broker, running or not; None before its first start."""
    kept = _read(home / FILE)
    return None if kept is None else f"{HOST}:{kept.kafka}"


def bootstrap_in(home: Path) -> str | None:
    """Return HOST:PORT of the broker that runs in a folder; None if none answers there."""
    address = kept_bootstrap(home)
    if address is None:
        return None
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return None
    return address


def choose_again(home: Path) -> Ports:
    """Forget the ports of `home`, and keep others: another process took them before the broker."""
    (home / FILE).unlink(missing_ok=True)
    return ports_of(home, None)


def _chosen(preferred: int | None) -> int:
    return preferred if preferred and _is_free(preferred) else free_port()


def _taken(home: Path, port: int, wanted: int | None) -> BrokerError:
    kept = "" if wanted else f", which {home} has kept since its first start,"
    return BrokerError(
        f"port {port} of {HOST}{kept} is taken by another process",
        remedy="stop that process, or give another port with --port; clients then have to use the "
        "new address",
    )


def free_port(besides: int = 0) -> int:
    """Return a port that is free now and is not `besides`."""
    for port in random.sample(CHOICES, 100):
        if port != besides and _is_free(port):
            return port
    raise BrokerError(
        f"no free port found from {CHOICES.start} to {CHOICES.stop - 1} of {HOST}",
        remedy="give one with --port",
    )


def _comes_free(port: int) -> bool:
    """Whether a port is free, or becomes free within a moment.

    A broker that was killed has its port until the last of its threads has ended.
    """
    until = time.monotonic() + _MOMENT_SECONDS
    while not _is_free(port):
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _is_free(port: int) -> bool:
    if not 0 < port < 65_536:
        raise BrokerError(f"port {port} is not one", remedy="give one from 1 to 65535")
    with socket.socket() as probe:
        # Ignore connections of an earlier broker that the system still remembers.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError as error:
            raise BrokerError(
                f"port {port} may not be used: {error}", remedy="give another"
            ) from error
        except OSError:
            return False
        return True


def _read(file: Path) -> Ports | None:
    try:
        return Ports(**json.loads(file.read_text()))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BrokerError(
            f"{file} can't be read: {error.strerror}", remedy="give another --home"
        ) from error
    except (ValueError, TypeError) as error:
        raise BrokerError(
            f"{file} is not what it should be ({error})",
            remedy="remove it, and new ports are chosen",
        ) from error


def _write(file: Path, ports: Ports) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(asdict(ports)) + "\n")
    new.replace(file)
