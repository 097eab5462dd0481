"""`txresolver broker`: the embedded Kafka by itself."""

from __future__ import annotations

import typer

from ..broker.ports import KAFKA_PORT
from ..broker.signals import until_stopped
from ..up.home import Home
from .options import HOME, HomeOption, PortOption
from .terminal import terminal


def broker(home: HomeOption = HOME, port: PortOption = None) -> None:
    """Run a real Kafka broker on this machine until SIGINT or SIGTERM."""
    from ..broker import Broker

    folders = Home(home)
    folders.make()
    with (
        terminal(home),
        until_stopped(),
        Broker(folders.broker, port, preferred=KAFKA_PORT) as running,
    ):
        typer.echo(f"ready: bootstrap={running.bootstrap}")
        running.wait()
