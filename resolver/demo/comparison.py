"""The database beside the delivered messages, and the report about both."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..protocol.names import BORN_TIMESTAMP, HALF_OFFSET, PGROUP, UNIQ_KEY
from .reading import Read
from .shop import TOPIC, Content

#: Headers that a commit adds to the user's headers.
_ADDED = frozenset({UNIQ_KEY, PGROUP, BORN_TIMESTAMP, HALF_OFFSET})
_EXAMPLES = 3
_NOTEBOOKS = Path(__file__).parents[2] / "scripts" / "notebooks"


@dataclass(frozen=True)
class Comparison:
    """The transactions at fault, by kind; `pending` counts transactions without an outcome."""

    placed: int
    right: int
    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    changed: tuple[str, ...]
    ghosts: tuple[str, ...]
    given_up: tuple[str, ...]
    pending: int = 0

    @property
    def faults(self) -> dict[str, tuple[str, ...]]:
        """The transactions at fault, by the words for each kind."""
        return {
            "lost: committed, not delivered": self.lost,
            "doubled: delivered more than once": self.doubled,
            "changed: delivered with other bits": self.changed,
            "ghosts: delivered, never committed": self.ghosts,
            "discarded, yet committed": self.given_up,
        }

    @property
    def holds(self) -> bool:
        """Whether each placed order was delivered exactly once, bit for bit, and no other was."""
        is_clean = not any(self.faults.values()) and not self.pending
        return self.right == self.placed and is_clean

    @property
    def verdict(self) -> str:
        """One line that says whether the comparison holds."""
        if self.holds:
            return (
                f"The comparison holds: each of the {self.placed:,} committed orders was delivered "
                "exactly once, bit for bit, and no other was."
            )
        faults = [
            f"{len(ids):,} {name.partition(':')[0]}" for name, ids in self.faults.items() if ids
        ]
        if self.pending:
            faults.append(f"{self.pending:,} without an outcome")
        return f"THE COMPARISON DOES NOT HOLD: {', '.join(faults)}."


def delivered_content(read: Read) -> tuple[str, Content]:
    """Return a message's transaction id (its position if it has none) and the user's content."""
    transaction_id = read.header(UNIQ_KEY) or f"(none, at {read.partition}:{read.offset})"
    headers = tuple(header for header in read.headers if header[0] not in _ADDED)
    return transaction_id, Content(read.key, read.value, headers)


def compare(
    placed: Mapping[str, Content],
    delivered: Mapping[str, Sequence[Content]],
    discarded: Iterable[str] = (),
    pending: int = 0,
) -> Comparison:
    """Compare the orders whose local transaction committed with the messages of the real topic.

    All arguments go by transaction id. A message that was placed and delivered several times counts
    as doubled, whatever its content.
    """
    once = {id_ for id_ in placed if len(delivered.get(id_, ())) == 1}
    right = {id_ for id_ in once if delivered[id_][0] == placed[id_]}
    return Comparison(
        placed=len(placed),
        right=len(right),
        lost=_listed(id_ for id_ in placed if not delivered.get(id_)),
        doubled=_listed(id_ for id_ in delivered if len(delivered[id_]) > 1),
        changed=_listed(once - right),
        ghosts=_listed(delivered.keys() - placed.keys()),
        given_up=_listed(placed.keys() & set(discarded)),
        pending=pending,
    )


def _listed(transactions: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(transactions))


def print_report(console: Console, result: Comparison, database: Path, home: Path) -> None:
    """Print the comparison, and the places to look further."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(min_width=44)
    table.add_column(justify="right", min_width=8)
    table.add_column(style="dim", overflow="fold")
    table.add_row("orders committed in the database", f"{result.placed:,}")
    table.add_row("delivered exactly once, bit for bit", f"{result.right:,}")
    for name, transactions in result.faults.items():
        count = Text(f"{len(transactions):,}", "bold red" if transactions else "")
        more = " …" if len(transactions) > _EXAMPLES else ""
        table.add_row(name, count, ", ".join(transactions[:_EXAMPLES]) + more)
    table.add_row("still without an outcome", f"{result.pending:,}")
    title = f"\nThe database {_shown(database)} and the topic {TOPIC}, compared:"
    console.print(title, style="bold")
    console.print(table)
    style = "bold green" if result.holds else "bold red"
    console.print(f"\n{result.verdict}\n", style=style, soft_wrap=True)
    for line in _where(home):
        console.print(line, soft_wrap=True, highlight=False)


def _where(home: Path) -> Iterable[str]:
    """Return the lines about tables and logs, and the commands of the audit and the notebooks."""
    command = Path(sys.executable).with_name("txresolver")
    audit = ["audit", "--home", _shown(home), "--config", _shown(home / "demo.toml")]
    yield f"Tables:    {_shown(home / 'tables')}"
    yield f"Logs:      {_shown(home / 'logs')}"
    yield f"Audit:     {shlex.join([_shown(command), *audit])}"
    if _NOTEBOOKS.exists():
        yield f"Notebooks: {shlex.join([_shown(_NOTEBOOKS), _shown(home)])}"


def _shown(path: Path) -> str:
    """Write a path as seen from the current folder, if it is below."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
