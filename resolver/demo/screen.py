"""The view of the running demo: a frame that stays where it is, or lines without a terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .processes import SHORTENED
from .reading import Counts, Latency

WIDTH = 96
_EVENTS = 5
_FRAME_SECONDS = 0.25


@dataclass
class DemoState:
    """The state that the view shows: the demo's steps change it, views draw it."""

    seconds: float
    kills_planned: int
    phase: str = "starting"
    shop: str = "not started"
    kills: int = 0
    counts: Counts = field(default_factory=Counts)
    pending: int = 0
    latencies: Sequence[Latency] = ()
    sending_since: float | None = None
    sent_for: float = 0.0
    started: float = field(default_factory=time.monotonic)
    events: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=_EVENTS))

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def sending(self) -> float:
        """Seconds for which orders have been sent."""
        since = self.sending_since
        return self.sent_for if since is None else time.monotonic() - since

    @property
    def rate(self) -> float:
        """Orders a second, over the whole time of sending."""
        return self.counts.begun / self.sending if self.sending >= 1 else 0.0

    @property
    def latency_texts(self) -> list[tuple[str, str]]:
        """Median and 99th percentile from the op, and from the half, to the visible message."""
        kinds = zip(*self.latencies, strict=True) if self.latencies else ((), ())
        return [(_percentile(kind, 0.5), _percentile(kind, 0.99)) for kind in kinds]


class Lines:
    """Plain lines: phases, events, and now and then a summary."""

    def __init__(self, every_seconds: float = 5.0) -> None:
        self._every = every_seconds
        self._due = 0.0
        self._phase = ""

    def draw(self, state: DemoState) -> None:
        if state.phase != self._phase:
            self._phase = state.phase
            self.tell(state, state.phase)
        if time.monotonic() >= self._due:
            self._sum_up(state)

    def tell(self, state: DemoState, event: str) -> None:
        print(f"{clock(state.elapsed)}  {event}", flush=True)

    def close(self, state: DemoState) -> None:
        self._sum_up(state)

    def _sum_up(self, state: DemoState) -> None:
        if state.counts.begun:
            self._due = time.monotonic() + self._every
            self.tell(state, summary(state))


class Screen:
    """Draws four times a second at most, in place."""

    def __init__(self, console: Console) -> None:
        self._width = min(WIDTH, console.width)
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._live.start()
        self._due = 0.0

    def draw(self, state: DemoState) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _FRAME_SECONDS
            self._live.update(frame(state, self._width), refresh=True)

    def tell(self, state: DemoState, event: str) -> None:
        """Draw at once: the event is in the state."""
        self._due = 0.0
        self.draw(state)

    def close(self, state: DemoState) -> None:
        self._due = 0.0
        self.draw(state)
        self._live.stop()


#: A view draws the demo's state, as often as it likes, and tells each event once.
View = Lines | Screen


def summary(state: DemoState) -> str:
    """Return the summary in one line."""
    c = state.counts
    undeliverable = f", {c.undeliverable:,} undeliverable" if c.undeliverable else ""
    half, most = state.latency_texts[0]
    return (
        f"{c.begun:,} orders: {c.committed:,} committed ({c.committed_by_check:,} by check), "
        f"{c.rolled_back:,} rolled back ({c.rolled_back_by_check:,} by check), "
        f"{c.discarded:,} discarded{undeliverable}, {state.pending:,} pending; "
        f"{c.checks:,} checks, {state.kills} kills; op to visible p50 {half}, p99 {most}"
    )


def frame(state: DemoState, width: int = WIDTH) -> Panel:
    """Return the whole view; its height never changes."""
    parts: list[RenderableType] = [
        *_heading(state),
        Text(),
        _outcomes(state.counts),
        Text(),
        _figures(state),
        Text(),
        *_events(state),
    ]
    return Panel(Group(*parts), title="txresolver demo", box=box.ROUNDED, width=width)


def _heading(state: DemoState) -> Iterable[Table]:
    placed = f"orders placed for {clock(state.sending)} of {clock(state.seconds)}"
    yield _sides(Text(state.phase, "bold"), f"running for {clock(state.elapsed)}")
    yield _sides(ProgressBar(state.seconds, state.sending), placed)


def _sides(left: RenderableType, right: str) -> Table:
    grid = Table.grid(expand=True, padding=(0, 2, 0, 0))
    grid.add_column(ratio=1, no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(left, Text(right, "dim"))
    return grid


def _outcomes(c: Counts) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("outcome", width=16)
    for name in ("transactions", "by the shop", "by check"):
        table.add_column(name, justify="right", width=12)
    table.add_column("", style="dim", no_wrap=True)
    for name, colour, total, by_check in (
        ("committed", "green", c.committed, c.committed_by_check),
        ("rolled back", "yellow", c.rolled_back, c.rolled_back_by_check),
    ):
        by_shop = total - by_check
        table.add_row(Text(name, colour), f"{total:,}", f"{by_shop:,}", f"{by_check:,}")
    limit = f"after {SHORTENED['transaction_check_max']} checks"
    table.add_row(Text("discarded", "red"), f"{c.discarded:,}", "-", "-", limit)
    table.add_row(Text("undeliverable", "magenta"), f"{c.undeliverable:,}", "-", "-")
    return table


def _figures(state: DemoState) -> Table:
    """Return the counts beside the outcomes on the left, and latencies on the right."""
    c = state.counts
    op, half = state.latency_texts
    table = Table.grid(padding=(0, 2, 0, 0))
    for width, is_number in (
        (16, False),
        (12, True),
        (4, False),
        (24, False),
        (10, True),
        (10, True),
    ):
        table.add_column(width=width, justify="right" if is_number else "left")
    killed = f"{state.kills} of {state.kills_planned}"
    heads = (Text(head, "dim") for head in ("latency", "p50", "p99"))
    table.add_row("orders begun", f"{c.begun:,}", "", *heads)
    table.add_row("pending", Text(f"{state.pending:,}", "bold"), "", "op stored → visible", *op)
    table.add_row("checks sent", f"{c.checks:,}", "", "half stored → visible", *half)
    table.add_row("delivered", f"{c.delivered:,}", "", "orders a second", f"{state.rate:.0f}")
    table.add_row("shop killed", killed, "", f"the shop {state.shop}")
    return table


def _events(state: DemoState) -> list[Text]:
    lines = [
        Text.assemble((clock(when), "dim"), "  ", event, no_wrap=True, overflow="ellipsis")
        for when, event in state.events
    ]
    return lines + [Text()] * (_EVENTS - len(lines))


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value that `share` of the others do not exceed; None without values."""
    if not values:
        return None
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def _percentile(seconds: Sequence[float], share: float) -> str:
    value = percentile(seconds, share)
    return "-" if value is None else f"{value:.2f} s"


def clock(seconds: float) -> str:
    """Write minutes and seconds."""
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"
