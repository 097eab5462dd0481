"""Results as tables and plots in docs/records/performance/figures.md, between its markers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from resolver.errors import ResolverError

from .goals import goals
from .plots import draw
from .results import Results
from .tables import markdown

DOCUMENT = Path("docs/records/performance/figures.md")
_BEGIN = "<!-- written by scripts/bench --report: begin -->"
_END = "<!-- end -->"


def write_report(path: Path, document: Path = DOCUMENT) -> None:
    """Put what a file of results says between the document's markers, and plots beside it."""
    results = Results.read(path)
    text = document.read_text()
    if _BEGIN not in text or _END not in text:
        raise ResolverError(f"{document} has no place for a report: put {_BEGIN} and {_END} in it")
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    plots = draw(results, document.with_suffix(""))
    parts = (_head(results), goals(results), _images(plots, document), markdown(results))
    lines = [_BEGIN, "", *chain(*parts), _END]
    document.write_text(before + "\n".join(lines) + after)


def _head(results: Results) -> Iterator[str]:
    """Yield what was run, when, on what and with which settings."""
    for run in results.runs:
        yield f"- `{run['run']}`, {run['at']}, of {run['code']}"
    yield from ("", f"Machine: {_joined(results.machine)}.")
    yield from _settings(results.settings)
    if loop := results.overall("loop_ms"):
        median, least, most = (f"{figure:,.0f}" for figure in loop[:3])
        yield from ("", f"A fixed loop, after each case: {median} ({least} to {most}) ms.")
    yield from ("", "Medians over the rounds; in brackets the least and the most.", "")


def _settings(by_measurement: Mapping[str, dict[str, str]]) -> Iterator[str]:
    """Yield the settings that all measurements have, then those that only some have."""
    alike = dict(set.intersection(*(set(settings.items()) for settings in by_measurement.values())))
    first = next(iter(by_measurement.values()))
    yield from ("", f"Settings: {_joined({name: first[name] for name in first if name in alike})}.")
    measurements_of: dict[str, list[str]] = {}
    for measurement, settings in by_measurement.items():
        others = {name: settings[name] for name in settings if name not in alike}
        if others:
            measurements_of.setdefault(_joined(others), []).append(measurement)
    for text, measurements in measurements_of.items():
        yield from ("", f"And of {', '.join(measurements)}: {text}.")


def _joined(pairs: Mapping[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in pairs.items())


def _images(plots: list[Path], document: Path) -> Iterator[str]:
    for plot in plots:
        yield from (f"![{plot.stem}]({plot.relative_to(document.parent)})", "")
