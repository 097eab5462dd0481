"""The report: a table in Markdown, for docs/records/reliability and for the terminal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .fault_error import FaultError
from .results import Result, Results

_HEAD = (
    "| fault | rounds | failed | transactions | lost | doubled | wrongly delivered "
    "| recovery p50 / p99 |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)

_PLACE = re.compile(r"(<!-- results: .*? -->)\n.*?(<!-- end of results -->)", re.DOTALL)


def summary(results: Results) -> str:
    """Return a row for each fault, one for all, and what the audits said."""
    rounds = results.rounds()
    faults = dict.fromkeys(result.fault for result in rounds)
    rows = [_row(fault, [result for result in rounds if result.fault == fault]) for fault in faults]
    audits = results.audits()
    held = sum(map(results.is_clean, audits))
    last = {result.world: result for result in rounds}
    # One that has failed is audited by another name.
    worlds = results.audited | {result.world for result in last.values() if not result.failed}
    seed = results.campaign()["seed"]
    restarts = sum(len(result.restarts) for result in rounds)
    counted = Counter(result.commit for result in rounds)
    commits = ", ".join(f"{commit} ({count})" for commit, count in counted.items()) or "none yet"
    audited = sum(audit.transactions for audit in audits)
    again = ", ".join(f"{world} ({count} rounds)" for world, count in results.again.items())
    sentences = (
        f"Seed {seed}: {len(rounds):,} of {results.planned:,} rounds; by commit: {commits}. "
        f"Worlds audited without a violation: {held} of {len(worlds)}, of {audited:,} "
        f"transactions. The resolver ended by itself {restarts} times, and was started again as it "
        "was."
    ) + (f" Played again since, by newer code: {again}." if again else "")
    return "\n".join([_HEAD, *rows, _row("all", rounds), "", sentences])


def write(results: Results, file: Path) -> None:
    """Write the summary into a document, between its two comments."""
    text, put = _PLACE.subn(
        lambda match: f"{match[1]}\n{summary(results)}\n{match[2]}", file.read_text()
    )
    if put != 1:
        raise FaultError(f"{file} has no place for results: {_PLACE.pattern}")
    file.write_text(text)


def _row(name: str, rounds: Sequence[Result]) -> str:
    counts = [
        len(rounds),
        sum(result.failed for result in rounds),
        sum(result.transactions for result in rounds),
        *(
            sum(len(getattr(result, kind)) for result in rounds)
            for kind in ("lost", "doubled", "wrong")
        ),
    ]
    waits = sorted(
        result.recovery for result in rounds if result.recovery is not None and not result.failed
    )
    recovery = f"{_percentile(waits, 50):.1f} / {_percentile(waits, 99):.1f} s" if waits else "-"
    cells = [name, *(f"{count:,}" for count in counts), recovery]
    return f"| {' | '.join(cells)} |"


def _percentile(ascending: Sequence[float], percent: int) -> float:
    return ascending[min(len(ascending) - 1, len(ascending) * percent // 100)]
