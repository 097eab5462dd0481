"""Results as tables and plots in docs/performance.md, between its markers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from resolver.bench.goals import goals
from resolver.bench.plots import draw
from resolver.bench.results import Results
from resolver.bench.tables import markdown
from resolver.errors import ResolverError

DOCUMENT = Path("docs/performance.md")
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
    last = results.runs[-1]
    for title, pairs in (("Machine", last["machine"]), ("Settings", last["settings"])):
        yield from (
            "",
            f"{title}: {'; '.join(f'{name} {value}' for name, value in pairs.items())}.",
        )
    if loop := results.overall("loop_ms"):
        median, least, most = (f"{figure:,.0f}" for figure in loop[:3])
        yield from ("", f"A fixed loop, after each case: {median} ({least} to {most}) ms.")
    yield from ("", "Medians over the rounds; in brackets the least and the most.", "")


def _images(plots: list[Path], document: Path) -> Iterator[str]:
    for plot in plots:
        yield from (f"![{plot.stem}]({plot.relative_to(document.parent)})", "")
