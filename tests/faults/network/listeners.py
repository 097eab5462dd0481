"""The listeners of a broker behind the proxy, one for each side that may be hit.

    python -m tests.faults.network.listeners HOME    is `txresolver broker --home HOME` with them

Beside them there is the broker's own listener, which nothing is done to: for the broker itself, and
for the campaign, which reads and audits by it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from resolver.broker import Broker, Security
from resolver.broker.ports import HOST, free_port, ports_of
from resolver.broker.signals import until_stopped

RESOLVER, PRODUCERS = "resolver", "producers"
_FILE = "fronts.json"


@dataclass(frozen=True)
class Front:
    """A side of the proxy: the port that clients connect to, and the broker's own behind it."""

    name: str
    outside: int
    inside: int

    def __str__(self) -> str:
        return f"{self.name}={self.outside}:{self.inside}"

    @property
    def servers(self) -> str:
        """HOST:PORT for clients."""
        return f"{HOST}:{self.outside}"


def fronts_of(home: Path) -> dict[str, Front]:
    """Return the fronts that a broker's home has kept, or choose and keep them."""
    file = home / _FILE
    if not file.exists():
        home.mkdir(parents=True, exist_ok=True)
        ports = iter(_free_ports(4))
        chosen = [Front(name, next(ports), next(ports)) for name in (RESOLVER, PRODUCERS)]
        file.write_text(json.dumps([asdict(front) for front in chosen]))
    return {
        front.name: front for front in (Front(**fields) for fields in json.loads(file.read_text()))
    }


def _free_ports(count: int) -> list[int]:
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return sorted(ports)


def proxied_broker(home: Path) -> Broker:
    """Return a broker that has a listener for each front, and advertises the front."""
    fronts = fronts_of(home)
    own = ports_of(home, None)  # it is given these again at its start
    clients, controller = f"CLIENTS://{HOST}:{own.kafka}", f"CONTROLLER://{HOST}:{own.controller}"
    names = ["CLIENTS", "CONTROLLER", *(name.upper() for name in fronts)]
    inside = [f"{front.name.upper()}://{HOST}:{front.inside}" for front in fronts.values()]
    outside = [f"{front.name.upper()}://{front.servers}" for front in fronts.values()]
    properties = {
        "listeners": ",".join([clients, controller, *inside]),
        "advertised.listeners": ",".join([clients, controller, *outside]),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
    }
    return Broker(home, security=Security(properties))


def main(home: str) -> None:
    """Run the broker until SIGINT or SIGTERM."""
    with until_stopped(), proxied_broker(Path(home) / "broker") as running:
        print(f"ready: bootstrap={running.bootstrap}", flush=True)
        running.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
