"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

ConfigOption = Annotated[
    Optional[Path],  # noqa: UP045 - typer reads it when the module is loaded, also on 3.10
    typer.Option("--config", help="The settings file, instead of conf/resolver.toml."),
]
SetOption = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="A setting; wins over file and environment."),
]
ServersOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--bootstrap-servers", metavar="HOST:PORT,...", help="Kafka's brokers."),
]
HomeOption = Annotated[Path, typer.Option("--home", help="The folder of all its data.")]
HOME = Path(".txresolver")
