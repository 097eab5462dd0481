"""`txresolver broker`: the embedded Kafka by itself."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from .options import HOME, HomeOption
from .signals import until_stopped


def broker(
    home: HomeOption = HOME,
    port: Annotated[
        Optional[int],  # noqa: UP045 - typer reads it when the module is loaded, also on 3.10
        typer.Option(min=1, max=65535, help="Its port; the one it had before if not given."),
    ] = None,
) -> None:
    """Run a real Kafka broker on this machine until SIGINT or SIGTERM."""
    from ..broker import Broker

    with until_stopped(), Broker(home / "broker", port) as running:
        typer.echo(f"ready: bootstrap={running.bootstrap}")
        running.wait()
