"""Draws the panels of the dashboard by the queries that Grafana would send."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from tests.support.prometheus import Prometheus

DASHBOARD = Path(__file__).parents[2] / "conf" / "grafana-dashboard.json"
#: Grafana's variable for a time that holds some scrapes.
_INTERVAL = "$__rate_interval"
_COLUMNS = 24


def panels() -> list[dict[str, Any]]:
    """Return the dashboard's panels."""
    board: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return list(board["panels"])


def queries(panel: dict[str, Any], interval: str) -> Iterator[tuple[str, str]]:
    """Yield the expression and the legend of each query."""
    for target in panel["targets"]:
        yield target["expr"].replace(_INTERVAL, interval), target["legendFormat"]


def draw(
    prometheus: Prometheus, start: float, end: float, interval: str, file: Path, title: str
) -> None:
    """Draw all panels into a picture, placed as in Grafana."""
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels())
    figure = Figure(figsize=(20, rows * 0.36), layout=None)
    figure.suptitle(title, y=0.995)
    for panel in panels():
        grid = panel["gridPos"]
        left, width = grid["x"] / _COLUMNS, grid["w"] / _COLUMNS
        bottom = 1 - (grid["y"] + grid["h"]) / rows
        box = (left + 0.03, bottom * 0.98 + 0.012, width - 0.04, grid["h"] / rows * 0.98 - 0.022)
        axes = figure.add_axes(box)
        axes.set_title(f"{panel['title']} ({panel['fieldConfig']['defaults']['unit']})", size=9)
        axes.tick_params(labelsize=7)
        for expression, legend in queries(panel, interval):
            for series in prometheus.range(expression, start, end):
                _draw(axes, panel["type"], series, legend)
        if panel["type"] != "stat" and axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize=6, loc="best")
    figure.savefig(file, dpi=70)


def _draw(axes: Any, kind: str, series: dict[str, Any], legend: str) -> None:
    if kind == "stat":
        axes.set_axis_off()
        shown = axes.texts[0].get_text() + "\n" if axes.texts else ""
        for text in list(axes.texts):
            text.remove()
        last = shown + f"{float(series['values'][-1][1]):g}"
        axes.text(0.5, 0.5, last, ha="center", va="center", size=14)
        return
    times = [datetime.fromtimestamp(time, timezone.utc) for time, _ in series["values"]]
    label = re.sub(r"\{\{(\w+)\}\}", lambda match: series["metric"].get(match[1], ""), legend)
    axes.plot(times, [float(value) for _, value in series["values"]], label=label or "value")
