"""`txresolver doctor`: looks at everything around a resolver, and says what to do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import SettingsError
from ..protocol.record import printable
from ..settings import load_for_command
from ..up.home import Home
from .options import HOME, BesideOption, ConfigOption, ServersOption, SetOption, with_servers
from .rows import Output, write
from .terminal import terminal

if TYPE_CHECKING:
    from ..doctor.finding import Finding


def doctor(
    role: Annotated[
        list[str],
        typer.Option(help="A role whose rights this login should have; repeatable."),
    ] = ["resolver"],  # noqa: B006 - typer copies it
    bootstrap_servers: ServersOption = None,
    home: BesideOption = HOME,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="The form of the findings.")
    ] = Output.text,
    config: ConfigOption = None,
    assignments: SetOption = [],  # noqa: B006
) -> None:
    """Look at Kafka, rights, topics, clocks, versions, disk, checkpoints and agents.

    Exits with 0 if all is well, 6 after a warning, 7 after an error. It sends a fence to each
    broker, to see its clock, and changes nothing else.
    """
    # Imported late: no other command needs so much.
    try:
        from ..doctor.access import ROLES
        from ..doctor.doctor import examine
        from ..doctor.finding import worst
    except ModuleNotFoundError as missing:
        raise SettingsError(str(missing)) from None

    if unknown := set(role) - set(ROLES):
        raise SettingsError(f"no role {sorted(unknown)[0]!r}: there are {', '.join(ROLES)}")
    options = {"bootstrap_servers": bootstrap_servers}
    settings = with_servers(load_for_command(config, assignments, options), home)
    with terminal(home):
        findings = list(examine(settings, Home(home), role))
    if output is Output.text:
        _write_text(findings)
    else:
        rows = [{**finding._asdict(), "level": finding.level.value} for finding in findings]
        write(rows, ("level", "about", "seen", "remedy"), output, "")
    sys.exit(worst(findings).exit_code)


def _write_text(findings: list[Finding]) -> None:
    """Write a line for each finding, and its remedy below: a command can be copied from there."""
    for finding in findings:
        typer.echo(f"{finding.level.value:<7}  {finding.about}: {printable(finding.seen)}")
        if finding.remedy:
            typer.echo(f"{'':<7}  -> {finding.remedy}")
