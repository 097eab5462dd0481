"""`txresolver topics create`: make or verify the protocol's topics, grant what each role needs."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from ..errors import SettingsError
from ..kafka.acls import grant
from ..kafka.clients import admin_client
from ..kafka.reach import await_broker
from ..kafka.rights import Principals, Right, rights
from ..kafka.topics import Topic, ensure_real_topics, ensure_topics
from ..protocol.patterns import ANY
from ..settings import Settings, load_for_command
from .options import HOME, BesideOption, ConfigOption, ServersOption, SetOption, with_servers
from .terminal import terminal

app = typer.Typer(help="The protocol's topics.", no_args_is_help=True)


@app.callback()
def topics() -> None:
    """Keep `create` a command of its own: typer would merge a single one."""


@app.command()
def create(
    group: Annotated[
        list[str],
        typer.Option(
            help="A producer group, for its check topic, besides those of the settings; repeatable."
        ),
    ] = [],  # noqa: B006
    topic: Annotated[
        list[str], typer.Option(help="A real topic, to which messages are sent; repeatable.")
    ] = [],  # noqa: B006
    partitions: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Partitions of each --topic; as many as queues if not given."),
    ] = None,
    queues: Annotated[Optional[int], typer.Option(help="Partitions of half and op.")] = None,  # noqa: UP045
    replication_factor: Annotated[Optional[int], typer.Option(help="Replicas of each.")] = None,  # noqa: UP045
    acls: Annotated[
        bool,
        typer.Option(
            "--acls",
            help="Grant the rights that are missing, to the principals given here and to those of "
            "groups in the settings; none is taken away.",
        ),
    ] = False,
    resolver_principal: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="User:NAME", help="Who runs the resolver (`txresolver up`)."),
    ] = None,
    land_principal: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="User:NAME", help="Who runs land, if that is somebody else."),
    ] = None,
    operator_principal: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="User:NAME", help="Who ends and brings back by hand."),
    ] = None,
    auditor_principal: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="User:NAME", help="Who compares with the topics (`audit --topics`)."),
    ] = None,
    bootstrap_servers: ServersOption = None,
    home: BesideOption = HOME,
    config: ConfigOption = None,
    assignments: SetOption = [],  # noqa: B006
) -> None:
    """Make the protocol's topics and real topics, or verify those that are there."""
    options = {
        "queues": queues,
        "replication_factor": replication_factor,
        "bootstrap_servers": bootstrap_servers,
    }
    settings = with_servers(load_for_command(config, assignments, options), home)
    principals = Principals(
        resolver_principal, land_principal, operator_principal, auditor_principal
    )
    wanted = _rights(settings, principals, acls)
    with terminal(home):
        await_broker(settings)
        admin = admin_client(settings)
        granted = grant(admin, wanted) if acls else set()
        made = ensure_topics(admin, settings, {*group, *settings.groups} - {ANY})
        real = ensure_real_topics(admin, settings, topic, partitions or settings.queues)
    _print(made + real)
    if acls:
        _print_rights(wanted, granted)
        if principals.resolver is not None:
            _print_unlimited(settings)


def _rights(settings: Settings, principals: Principals, acls: bool) -> list[Right]:
    wanted = rights(settings, principals)
    if acls and not wanted:
        raise SettingsError(
            "--acls has nobody to grant rights to",
            remedy="give --resolver-principal, --land-principal, --operator-principal, "
            "--auditor-principal, or principal in [groups.<name>] of the settings",
        )
    if principals != Principals() and not acls:
        raise SettingsError("principals are for granting rights", remedy="give --acls too")
    return wanted


def _print(topics: list[Topic]) -> None:
    names = max(len("topic"), *(len(topic.name) for topic in topics))
    typer.echo(f"{'topic':<{names}}  {'action':<8}  {'partitions':>10}  {'replicas':>8}  note")
    for topic in topics:
        typer.echo(
            f"{topic.name:<{names}}  {topic.action:<8}  {topic.partitions:>10}  "
            f"{topic.replication_factor:>8}  {topic.note}".rstrip()
        )


def _print_unlimited(settings: Settings) -> None:
    """Say for which groups nothing was granted on real topics, as these may be any."""
    others = settings.groups.get(ANY)
    if others is not None and others.topics is not None:
        return
    named = [
        name for name, group in settings.groups.items() if group.topics is None and name != ANY
    ]
    who = ", ".join([*named, "groups without a section"])
    typer.echo(
        f"\nNot granted: the real topics of {who}, which may be any. Give topics in "
        "[groups.<name>], or grant the resolver Read, Write and DescribeConfigs on them: else "
        "what is committed to them ends as UNDELIVERABLE. Grant the groups Describe and "
        "DescribeConfigs on them: else their producers can't refuse what does not fit. A group "
        "that is fast needs Write too."
    )


def _print_rights(wanted: list[Right], granted: set[Right]) -> None:
    rows = [("principal", "action", "may", "on")]
    for right in wanted:
        action = "granted" if right in granted else "verified"
        may, kind = (word.name.lower().replace("_", " ") for word in (right.operation, right.kind))
        rows.append((right.principal, action, may, f"{kind} {right.pattern}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    typer.echo()
    for row in rows:
        cells = zip(row, widths, strict=True)
        typer.echo("  ".join(f"{cell:<{width}}" for cell, width in cells).rstrip())
