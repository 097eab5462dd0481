"""The live view of a terminal: one frame that stays where it is."""

from __future__ import annotations

import time

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .ledger import Counts
from .shortened import SHORTENED
from .view import Scene, clock, half_times, op_times, percentile, seconds_text

WIDTH = 96
_EVERY_SECONDS = 0.25


class Screen:
    """Draws four times a second at most, in place."""

    def __init__(self, console: Console) -> None:
        self._width = min(WIDTH, console.width)
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._live.start()
        self._due = 0.0

    def draw(self, scene: Scene) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _EVERY_SECONDS
            self._live.update(frame(scene, self._width), refresh=True)

    def tell(self, scene: Scene, event: str) -> None:
        """Events are in the scene; draw them at once."""
        self._due = 0.0
        self.draw(scene)

    def close(self, scene: Scene) -> None:
        self._due = 0.0
        self.draw(scene)
        self._live.stop()


def frame(scene: Scene, width: int = WIDTH) -> Panel:
    """Return the whole view; its height never changes."""
    parts: list[RenderableType] = [
        _heading(scene),
        _progress(scene),
        Text(),
        _outcomes(scene.counts),
        Text(),
        _figures(scene),
        Text(),
        *_events(scene),
    ]
    return Panel(Group(*parts), title="txresolver demo", box=box.ROUNDED, width=width)


def _heading(scene: Scene) -> Table:
    grid = Table.grid(expand=True, padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(Text(scene.phase, "bold"), Text(f"running for {clock(scene.elapsed)}", "dim"))
    return grid


def _progress(scene: Scene) -> Table:
    grid = Table.grid(expand=True, padding=(0, 2, 0, 0))
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    placed = f"orders placed for {clock(scene.sending)} of {clock(scene.seconds)}"
    grid.add_row(ProgressBar(scene.seconds, scene.sending), Text(placed, "dim"))
    return grid


def _outcomes(c: Counts) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("outcome", width=16)
    for name in ("transactions", "by the shop", "by check"):
        table.add_column(name, justify="right", width=12)
    table.add_column("", style="dim", no_wrap=True)
    table.add_row(*_split("committed", "green", c.committed, c.committed_by_check))
    table.add_row(*_split("rolled back", "yellow", c.rolled_back, c.rolled_back_by_check))
    limit = SHORTENED["transaction_check_max"]
    table.add_row(Text("discarded", "red"), f"{c.discarded:,}", "-", "-", f"after {limit} checks")
    table.add_row(Text("undeliverable", "magenta"), f"{c.undeliverable:,}", "-", "-")
    return table


def _split(name: str, colour: str, total: int, by_check: int) -> tuple[Text, str, str, str]:
    return Text(name, colour), f"{total:,}", f"{total - by_check:,}", f"{by_check:,}"


def _figures(scene: Scene) -> Table:
    """Return what is counted beside the outcomes, on the left, and latencies on the right."""
    c = scene.counts
    op, half = op_times(scene), half_times(scene)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=16)
    table.add_column(width=12, justify="right")
    table.add_column(width=4)
    table.add_column(width=24)
    table.add_column(width=10, justify="right")
    table.add_column(width=10, justify="right")
    table.add_row("orders begun", f"{c.begun:,}", "", Text("latency", "dim"),
                  Text("p50", "dim"), Text("p99", "dim"))  # fmt: skip
    table.add_row("pending", Text(f"{scene.pending:,}", "bold"), "", "op stored → visible",
                  *(seconds_text(percentile(op, share)) for share in (0.5, 0.99)))  # fmt: skip
    table.add_row("checks sent", f"{c.checks:,}", "", "half stored → visible",
                  *(seconds_text(percentile(half, share)) for share in (0.5, 0.99)))  # fmt: skip
    table.add_row("delivered", f"{c.delivered:,}", "", "orders a second", f"{scene.rate:.0f}")
    killed = f"{scene.kills} of {scene.kills_planned}"
    table.add_row("shop killed", killed, "", f"the shop {scene.shop}")
    return table


def _events(scene: Scene) -> list[Text]:
    lines = [
        Text.assemble((clock(when), "dim"), "  ", what, no_wrap=True, overflow="ellipsis")
        for when, what in scene.events
    ]
    return lines + [Text()] * ((scene.events.maxlen or 0) - len(lines))
