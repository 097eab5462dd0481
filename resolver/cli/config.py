"""`txresolver config`: the effective settings and where each comes from."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..settings import load_for_command
from .options import ConfigOption, SetOption


def config(
    config: ConfigOption = None,
    assignments: SetOption = [],  # noqa: B006 - typer's way; never changed
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show every setting's effective value and where it comes from; secrets are masked."""
    rows = load_for_command(config, assignments).shown()
    if as_json:
        shown = {name: {"value": value, "origin": origin} for name, value, origin in rows}
        typer.echo(json.dumps(shown, indent=2))
        return
    names = max(len(name) for name, _, _ in rows)
    values = max(len(value) for _, value, _ in rows)
    for name, value, origin in rows:
        typer.echo(f"{name:<{names}}  {value:<{values}}  {origin}")
