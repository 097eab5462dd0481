"""Options that commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Optional, get_type_hints

import typer

from ..broker.ports import bootstrap_in
from ..settings import Settings
from ..up.home import DEFAULT_HOME, Home
from ..watch.json_log import LogFormat

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
#: Of a command that may run beside `txresolver up`.
BesideOption = Annotated[
    Path,
    typer.Option("--home", help="The home of an `up`: its broker is taken if no servers are set."),
]
PortOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        min=1,
        max=65535,
        help="Port of its own broker; if not given, the one that it had before. A new home takes "
        "9092 if that is free.",
    ),
]
LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="Lines for people, or JSON for programs.")
]
HOME = DEFAULT_HOME
_BY_NAME = inspect.Parameter.KEYWORD_ONLY


def with_servers(settings: Settings, home: Path) -> Settings:
    """Return settings with the broker that runs in a home, unless servers are set."""
    if settings.bootstrap_servers:
        return settings
    return replace(settings, bootstrap_servers=bootstrap_in(Home(home).broker) or "")


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take options as NamedTuples, which it shares with other commands.

    Each field becomes an option of the command, at the place of the NamedTuple.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    shared: dict[str, Any] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if hasattr(hints[name], "_fields"):
            shared[name] = hints[name]
            parameters += _options_of(hints[name])
        else:
            parameters.append(parameter.replace(kind=_BY_NAME, annotation=hints[name]))

    @wraps(command)
    def with_flat_options(**options: Any) -> None:
        for name, kind in shared.items():
            options[name] = kind(**{field: options.pop(field) for field in kind._fields})
        command(**options)

    with_flat_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return with_flat_options


def _options_of(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    empty = inspect.Parameter.empty
    return [
        inspect.Parameter(
            name,
            _BY_NAME,
            default=kind._field_defaults.get(name, empty),
            annotation=hints[name],
        )
        for name in kind._fields
    ]
