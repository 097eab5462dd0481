"""What the demo says at its end."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .comparison import Comparison
from .orders import TOPIC

_EXAMPLES = 3
_NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "transactions.ipynb"


def print_report(console: Console, result: Comparison, database: Path, home: Path) -> None:
    """Print the comparison, and where to look further."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(min_width=44)
    table.add_column(justify="right", min_width=8)
    table.add_column(style="dim", overflow="fold")
    table.add_row("orders committed in the database", f"{result.placed:,}")
    table.add_row("delivered exactly once, bit for bit", f"{result.right:,}")
    for name, transactions in faults(result):
        style = "bold red" if transactions else ""
        table.add_row(name, Text(f"{len(transactions):,}", style), _examples(transactions))
    table.add_row("still without an outcome", f"{result.pending:,}")
    console.print()
    console.print(f"The database {shown(database)} and the topic {TOPIC}, compared:", style="bold")
    console.print(table)
    console.print()
    console.print(
        verdict(result), style="bold green" if result.holds else "bold red", soft_wrap=True
    )
    console.print()
    for line in where(home):
        console.print(line, soft_wrap=True, highlight=False)


def faults(result: Comparison) -> list[tuple[str, tuple[str, ...]]]:
    """Return each kind of fault and its transactions."""
    return [
        ("lost: committed, not delivered", result.lost),
        ("doubled: delivered more than once", result.doubled),
        ("changed: delivered with other bits", result.changed),
        ("ghosts: delivered, never committed", result.ghosts),
        ("discarded, yet committed", result.given_up),
    ]


def verdict(result: Comparison) -> str:
    """Say in one line whether it holds."""
    if result.holds:
        return (
            f"The comparison holds: each of the {result.placed:,} committed orders was delivered "
            "exactly once, bit for bit, and no other was."
        )
    found = [f"{len(these):,} {name.partition(':')[0]}" for name, these in faults(result) if these]
    if result.pending:
        found.append(f"{result.pending:,} without an outcome")
    return f"THE COMPARISON DOES NOT HOLD: {', '.join(found)}."


def where(home: Path) -> list[str]:
    """Say where the tables are, and how to audit them and to open the notebook."""
    command = Path(sys.executable).with_name("txresolver")
    audit = ["audit", "--home", shown(home), "--config", shown(home / "demo.toml")]
    lines = [
        f"Tables:   {shown(home / 'tables')}",
        f"Logs:     {shown(home / 'logs')}",
        f"Audit:    {shlex.join([shown(command), *audit])}",
    ]
    if _NOTEBOOK.exists():
        lines.append(
            f"Notebook: TXRESOLVER_HOME={home} jupyter lab {shown(_NOTEBOOK)}"
            " (needs: pip install jupyterlab)"
        )
    return lines


def shown(path: Path) -> str:
    """Write a path as seen from here, where it is below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else os.fspath(path)


def _examples(transactions: tuple[str, ...]) -> str:
    more = " …" if len(transactions) > _EXAMPLES else ""
    return ", ".join(transactions[:_EXAMPLES]) + more
