"""What was aimed at on two cores, beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .results import Results, Spread


class Figure(NamedTuple):
    """A figure of a case."""

    measurement: str
    case: str
    figure: str


class Goal(NamedTuple):
    """A figure, or its ratio to another of the same round, and what it is to be."""

    what: str
    figure: Figure
    limit: float
    at_least: bool = False
    beside: Figure | None = None
    unit: str = ""

    def measured(self, results: Results) -> Spread | None:
        """Return what was measured; None where it was not."""
        if self.beside is None:
            return results.spread(*self.figure)
        return results.ratio(self.figure, self.beside)

    def is_reached(self, median: float) -> bool:
        return median >= self.limit if self.at_least else median <= self.limit


_ROCKETMQ = Figure("rocketmq", "512 bytes", "per_second")
_BACKLOG = Figure("backlog", "txresolver", "per_second")


def _sustained(form: str, how: str) -> Goal:
    figure = Figure("sustained", f"512 bytes, {form}", "per_second")
    what = f"sustained beside RocketMQ, 512 bytes, {form}: {how}"
    return Goal(what, figure, 1.5, True, _ROCKETMQ, " times")


def _latency(rate: str, quantile: str, limit_ms: float) -> Goal:
    figure = Figure("latency", rate, f"{quantile}_ms")
    return Goal(f"commit to visible at {rate}, {quantile}", figure, limit_ms, unit=" ms")


def _plain(wait: str) -> Goal:
    beside = Figure("plain", f"{wait}, backlog", "per_second")
    return Goal(f"backlog beside the plain join, {wait}", _BACKLOG, 2, True, beside, " times")


_HELD = "1,000,000 pending"
GOALS = (
    _sustained("threads", "a message per local transaction, as RocketMQ's"),
    _sustained("lingering", "the same with `linger.ms=1`"),
    _sustained("bulk", "100 messages per local transaction"),
    Goal("backlog", _BACKLOG, 30_000, True, unit="/s"),
    *(_plain(wait) for wait in ("600 s", "6 s")),
    _latency("200/s", "p50", 400),
    _latency("200/s", "p99", 1_000),
    _latency("10,000/s", "p50", 1_000),
    Goal(
        "a batch with 10,000,000 settled beside one with 100,000",
        Figure("settled", "10,000,000 beside 100,000", "times"),
        1.2,
        unit=" times",
    ),
    Goal(
        "the longest batch with 1,000,000 pending",
        Figure("held", _HELD, "held_batch_max_ms"),
        3_000,
        unit=" ms",
    ),
    # No longer than the longest batch above: what falls due in one leaves with the next.
    Goal(
        "1,000 checks due a second: late, p99", Figure("held", _HELD, "p99_ms"), 3_000, unit=" ms"
    ),
    Goal("1,000 checks due a second: missing", Figure("held", _HELD, "missing"), 0),
    Goal(
        "commit to visible at 200/s to all others of a topic without a leader, p99",
        Figure("leaderless", "200/s to all others", "p99_ms"),
        2_000,
        unit=" ms",
    ),
    Goal("idle", Figure("idle", "txresolver up", "cores"), 0.3, unit=" cores"),
)


def goals(results: Results) -> Iterator[str]:
    """Yield a table of all goals that anything was measured of."""
    measured = [(goal, spread) for goal in GOALS if (spread := goal.measured(results))]
    if not measured:
        return
    yield from ("### Goals", "", "Ratios are those of the rounds.", "")
    yield from ("| | goal | measured | |", "| --- | ---: | ---: | --- |")
    for goal, spread in measured:
        sign = "≥" if goal.at_least else "≤"
        median, least, most = (_written(figure) for figure in spread[:3])
        extremes = "" if spread.rounds == 1 else f" ({least} to {most})"
        verdict = "reached" if goal.is_reached(spread.median) else "**missed**"
        goal_is = f"{sign} {_written(goal.limit)}{goal.unit}"
        yield f"| {goal.what} | {goal_is} | {median}{extremes}{goal.unit} | {verdict} |"
    yield ""


def _written(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"
