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
# Below the ports that systems give to outgoing connections: one of those may be taken by any
# program while the broker is down.
CHOICES = range(20_000, 32_000)
_MOMENT_SECONDS = 3.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Ports:
    """Where clients connect, and where the broker talks to its own controller."""

    kafka: int
    controller: int


def ports_of(home: Path, wanted: int | None) -> Ports:
    """Return the ports that `home` has kept, or choose and keep them; both are free.

    Raises BrokerError where the one for clients is taken.
    """
    file = home / "ports.json"
    kept = _read(file)
    kafka = wanted or (kept.kafka if kept else free_port())
    if not _comes_free(kafka):
        raise BrokerError(_taken(home, kafka, wanted))
    controller = kept.controller if kept else 0
    # Nobody but the broker itself knows this one.
    if not controller or controller == kafka or not _is_free(controller):
        controller = free_port(besides=kafka)
    ports = Ports(kafka, controller)
    if ports != kept:
        _write(file, ports)
    return ports


def _taken(home: Path, port: int, wanted: int | None) -> str:
    kept = "" if wanted else f", which {home} has kept since its first start,"
    return (
        f"port {port} of {HOST}{kept} is taken by another process. Stop that process, "
        "or give another port with --port; clients then have to use the new address."
    )


def free_port(besides: int = 0) -> int:
    """Return a port that is free now, and not `besides`."""
    for port in random.sample(CHOICES, 100):
        if port != besides and _is_free(port):
            return port
    raise BrokerError(f"no free port found from {CHOICES.start} to {CHOICES.stop - 1} of {HOST}")


def _comes_free(port: int) -> bool:
    """Whether a port is free, or is in a moment.

    A broker that was killed has it until the last of its threads has ended.
    """
    until = time.monotonic() + _MOMENT_SECONDS
    while not _is_free(port):
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _is_free(port: int) -> bool:
    if not 0 < port < 65_536:
        raise BrokerError(f"port {port} is not one: it has to be from 1 to 65535")
    with socket.socket() as probe:
        # Connections of an earlier broker that the system still remembers are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError as error:
            raise BrokerError(f"port {port} may not be used: {error}. Give another") from error
        except OSError:
            return False
        return True


def _read(file: Path) -> Ports | None:
    try:
        return Ports(**json.loads(file.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise BrokerError(
            f"{file} is not what it should be ({error}); remove it, and new ports are chosen"
        ) from error


def _write(file: Path, ports: Ports) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(asdict(ports)) + "\n")
    new.replace(file)
