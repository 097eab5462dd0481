"""The command `what-if`: what would have come out with other settings."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from ..settings import load_for_command
from .ledger import GroupOption, SinceOption, TablesOption, UntilOption, filter_of, opened
from .options import HOME, ConfigOption, HomeOption
from .rows import Output, write

if TYPE_CHECKING:
    from ..what_if import Comparison

ChangesOption = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="What would have been otherwise."),
]


def what_if(
    changes: ChangesOption,
    home: HomeOption = HOME,
    tables: TablesOption = None,
    group: GroupOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    examples: Annotated[int, typer.Option(min=0, help="Transactions that are named.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with all of them.")] = False,
    config: ConfigOption = None,
) -> None:
    """Replay what the ledger has by other settings, and say what would have come out otherwise.

    It is compared with a replay by the settings of --config. Nothing is changed anywhere.
    """
    from ..what_if import compare, read_history

    then = load_for_command(config, changes)
    # A prefix names the ledger's topics, on both sides.
    now = replace(load_for_command(config, []), topic_prefix=then.topic_prefix)
    chosen = filter_of(group=group, since=since, until=until)
    comparison = compare(read_history(opened(home, tables, None), chosen), now, then)
    if as_json:
        typer.echo(json.dumps(comparison.as_json(), indent=2))
    else:
        _tell(comparison, examples)


def _tell(comparison: Comparison, examples: int) -> None:
    from ..what_if.comparison import ASSUMED

    for name, (now, then) in comparison.changed.items():
        typer.echo(f"{name}: {then} instead of {now}")
    agrees = f"{comparison.as_recorded} of {comparison.transactions}"
    typer.echo(f"With the settings of now, {agrees} transactions come out as recorded.")
    figures = [
        {
            "figure": name,
            "now": now,
            "then": comparison.then[name],
            "more": comparison.then[name] - now,
        }
        for name, now in comparison.now.items()
    ]
    write(figures, ("figure", "now", "then", "more"), Output.text, "")
    typer.echo(f"{len(comparison.differences)} transactions would have come out otherwise.")
    if comparison.differences[:examples]:
        rows = [asdict(difference) for difference in comparison.differences[:examples]]
        write(rows, ("id", "transaction_id", "group", "now", "then"), Output.text, "")
    typer.echo(
        f"Of the checks, {comparison.unknown_checks} were never sent: nobody knows their answers."
    )
    typer.echo("Taken for granted:")
    for line in ASSUMED:
        typer.echo(f"- {line}")
