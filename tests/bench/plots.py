"""Plots of results, as small images beside the tables."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .results import Results, Spread

_QUANTILES = {"p50_ms": "p50", "p90_ms": "p90", "p99_ms": "p99"}
_GROWTH = {"settled": "", "pending": "", "queues": "", "bodies": ", bytes"}
_PEERS = (("rocketmq", "RocketMQ", "tab:orange"), ("sustained", "txresolver", "tab:blue"))
_BULK = "lightsteelblue"
_DPI = 90


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw what there are results for, and return the files."""
    mpl.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    plots = {"throughput": _throughput, "latency": _latency, "growth": _growth}
    files = []
    for name, plot in plots.items():
        figure = plot(results)
        if figure is not None:
            files.append(folder / f"{name}.png")
            figure.savefig(files[-1], dpi=_DPI, bbox_inches="tight")
    return files


def _throughput(results: Results) -> Figure | None:
    """Bars of transactions a second, RocketMQ's and ours, with the least and the most.

    Bulk stands apart, paler: RocketMQ's benchmark has nothing like it.
    """
    bars = [
        (f"{label}, {case}", spread, _BULK if "bulk" in case else color)
        for name, label, color in _PEERS
        for case in results.cases(name)
        if not results.spread(name, case, "rate")  # at 80 % it is no throughput
        if (spread := results.spread(name, case, "per_second"))
    ]
    if not bars:
        return None
    figure = Figure(figsize=(7, 0.4 * len(bars) + 1))
    axes = figure.add_subplot()
    labels, spreads, colors = zip(*reversed(bars), strict=True)
    medians = [spread.median for spread in spreads]
    axes.barh(labels, medians, xerr=_errors(list(spreads)), color=colors)
    axes.set_xlabel("transactions/s, end to end")
    return figure


def _latency(results: Results) -> Figure | None:
    """Quantiles of latency over the rate."""
    cases = [
        (rate.median, case)
        for case in results.cases("latency")
        if (rate := results.spread("latency", case, "rate"))
    ]
    if not cases:
        return None
    figure = Figure(figsize=(7, 3))
    axes = figure.add_subplot()
    for quantile, label in _QUANTILES.items():
        _line(axes, results, [("latency", case, rate) for rate, case in cases], quantile, label)
    axes.set_xscale("log")
    axes.set(xlabel="transactions/s", ylabel="commit to visible, ms", ylim=(0, None))
    axes.legend()
    return figure


def _growth(results: Results) -> Figure | None:
    """The time of a batch with more and more of each."""
    measured = [name for name in _GROWTH if results.cases(name)]
    if not measured:
        return None
    figure = Figure(figsize=(3.2 * len(measured), 3))
    for column, name in enumerate(measured):
        axes = figure.add_subplot(1, len(measured), column + 1)
        cases = [(name, case, _number(case)) for case in results.cases(name)]
        _line(axes, results, cases, "batch_p50_ms", "p50")
        _line(axes, results, cases, "batch_max_ms", "max")
        axes.set_xscale("log")
        axes.set(xlabel=f"{name}{_GROWTH[name]}", ylim=(0, None))
    figure.axes[0].set_ylabel("batch, ms")
    figure.axes[0].legend()
    figure.tight_layout()
    return figure


def _line(
    axes: Axes, results: Results, cases: list[tuple[str, str, float]], figure: str, label: str
) -> None:
    points = [
        (x, spread)
        for measurement, case, x in cases
        if (spread := results.spread(measurement, case, figure))
    ]
    if points:
        xs, spreads = zip(*points, strict=True)
        medians = [spread.median for spread in spreads]
        axes.errorbar(xs, medians, _errors(list(spreads)), label=label, marker="o", capsize=3)


def _errors(spreads: list[Spread]) -> list[list[float]]:
    return [
        [spread.median - spread.least for spread in spreads],
        [spread.most - spread.median for spread in spreads],
    ]


def _number(case: str) -> float:
    return float(case.split(maxsplit=1)[0].replace(",", ""))
