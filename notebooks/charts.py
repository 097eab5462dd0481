"""What the notebooks share: the home, the colours, and how tables and figures look."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import Markdown, display
from matplotlib.axes import Axes
from matplotlib.axis import Axis

COLOURS = {
    "COMMIT": "#2a7f4f",
    "ROLLBACK": "#d08a1d",
    "DISCARD": "#b03a3a",
    "UNDELIVERABLE": "#6b4c9a",
    "PENDING": "#33658a",
    "PARKED": "#86bbd8",
}
BLUE, GREY = COLOURS["PENDING"], "#9a9a9a"
#: Widths of slices of time that people read easily.
_WIDTHS = ["1s", "2s", "5s", "10s", "30s", "1min", "5min", "15min", "1h", "6h", "1D", "7D", "30D"]
_SLICES = 60

plt.rcParams.update(
    {
        "figure.figsize": (10, 3.6),
        "figure.constrained_layout.use": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.alpha": 0.3,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        # Ids may be anything: they are no formulas.
        "text.parse_math": False,
    }
)


def home() -> Path:
    """Return the home, looked for from the notebook's folder and from the project's."""
    given = Path(os.environ.get("TXRESOLVER_HOME", ".txresolver/demo"))
    return given if given.exists() else Path("..") / given


def say(text: str) -> None:
    """Show a line between tables and figures."""
    display(Markdown(text))


def table(frame: pd.DataFrame, caption: str) -> None:
    """Show few rows: times to the millisecond, durations as people say them, text to the left."""
    shown = frame.copy()
    for name in shown.columns:
        if isinstance(shown[name].dtype, pd.DatetimeTZDtype):
            shown[name] = shown[name].map(_time, na_action="ignore").astype(object)
        elif str(name).endswith("_ms"):
            shown[name] = shown[name].map(duration, na_action="ignore")
    shown.columns = [str(name).removesuffix("_ms").replace("_", " ") for name in shown]
    styles: Any = {
        name: [{"selector": "", "props": "text-align: left"}]
        for name in shown
        if not pd.api.types.is_numeric_dtype(shown[name])
    }
    style = shown.style.format(precision=0, thousands=",", na_rep="-", escape="html")
    style = style.hide(axis="index").set_caption(caption).set_table_styles(styles)
    heading = [{"selector": "caption", "props": "text-align: left; font-weight: bold"}]
    display(style.set_table_styles(heading, overwrite=False))


def _time(time: pd.Timestamp) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S.%f}"[:-3]


def duration(milliseconds: float) -> str:
    """Return a duration in its greatest unit."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if milliseconds >= size:
            return f"{milliseconds / size:.3g} {unit}"
    return f"{milliseconds:.0f} ms"


def slice_ms(first: pd.Timestamp, last: pd.Timestamp) -> int:
    """Return the width of a slice, in ms, that cuts a span into about 60."""
    wanted = (last - first) / _SLICES
    width = next((each for each in map(pd.Timedelta, _WIDTHS) if each >= wanted), None)
    return int((width or pd.Timedelta(_WIDTHS[-1])) / pd.Timedelta("1ms"))


def by_slice(counts: pd.DataFrame, kind: str, width_ms: int) -> pd.DataFrame:
    """Turn rows of `slice`, a kind and `n` into a column for each kind, by time, without gaps."""
    counted = counts.pivot_table(index="slice", columns=kind, values="n", aggfunc="sum")
    every = counted.reindex(range(counted.index.min(), counted.index.max() + 1)).fillna(0)
    every.index = pd.to_datetime(every.index * width_ms, unit="ms", utc=True)
    return every


def axes(title: str, ylabel: str = "", xlabel: str = "", height: float = 3.6) -> Axes:
    """Return the axes of a new figure."""
    ax = plt.subplots(figsize=(10, height))[1]
    ax.set(title=title, ylabel=ylabel, xlabel=xlabel)
    return ax


def logarithmic(axis: Axis, of: Callable[[float], str] = "{:,.0f}".format) -> None:
    """Scale an axis by its logarithm, with numbers that people read."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_formatter(lambda value, _: of(value))
    axis.set_minor_formatter("")


def time_axis(ax: Axes) -> None:
    """Label the times below in as few words as possible."""
    locator = mdates.AutoDateLocator()
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))
    ax.set_xlabel("time (UTC)")


def stacked(ax: Axes, counts: pd.DataFrame, width_ms: int, colours: Mapping[str, str]) -> None:
    """Draw a bar for each slice of time, stacked by kind."""
    bottom = pd.Series(0.0, index=counts.index)
    width = pd.Timedelta(milliseconds=width_ms)
    for kind in sorted(counts.columns, key=[*colours].index):
        bar = {"bottom": bottom, "width": width, "align": "edge", "color": colours[kind]}
        ax.bar(counts.index, counts[kind], label=kind, **bar)
        bottom += counts[kind]
    ax.set_ylabel(f"{ax.get_ylabel()} per {duration(width_ms)}")
    legend(ax)
    time_axis(ax)


def bars(ax: Axes, counts: pd.DataFrame, colours: Mapping[str, str]) -> None:
    """Draw a row of bars for each line of a table, one behind the other, with its sum."""
    left = pd.Series(0.0, index=counts.index)
    for kind in [kind for kind in colours if kind in counts]:
        ax.barh(counts.index, counts[kind], left=left, label=kind, color=colours[kind], height=0.65)
        left += counts[kind]
    for place, total in enumerate(left):
        ax.annotate(
            f"{total:,.0f}", (total, place), (4, 0), textcoords="offset points", va="center"
        )
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.margins(x=0.1)
    ax.xaxis.set_major_formatter("{x:,.0f}")


def legend(ax: Axes) -> None:
    """Put the legend below the figure, where it hides nothing."""
    ax.figure.legend(loc="outside lower left", ncols=6, frameon=False)
