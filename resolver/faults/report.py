"""The report: a table in Markdown, for docs/reliability.md and for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from .results import Result, Results

_HEAD = (
    "| fault | rounds | transactions | lost | doubled | wrongly delivered | recovery p50 / p99 |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def summary(results: Results) -> str:
    """Return a row for each fault, one for all, and what the audits said."""
    rounds = results.rounds()
    faults = dict.fromkeys(result.fault for result in rounds)
    rows = [_row(fault, [one for one in rounds if one.fault == fault]) for fault in faults]
    audits = results.audits()
    held = sum(one.exit_code == 0 for one in audits)
    seed = results.campaign()["seed"]
    said = (
        f"Seed {seed}; {len(rounds)} rounds; audits without a violation: {held} of {len(audits)}."
    )
    return "\n".join([_HEAD, *rows, _row("all", rounds), "", said])


def _row(name: str, rounds: Sequence[Result]) -> str:
    counts = [
        sum(one.transactions for one in rounds),
        *(sum(len(getattr(one, kind)) for one in rounds) for kind in ("lost", "doubled", "wrong")),
    ]
    waits = sorted(one.recovery for one in rounds)
    recovery = f"{_percentile(waits, 50):.1f} / {_percentile(waits, 99):.1f} s"
    cells = [name, f"{len(rounds):,}", *(f"{count:,}" for count in counts), recovery]
    return f"| {' | '.join(cells)} |"


def _percentile(ascending: Sequence[float], percent: int) -> float:
    return ascending[min(len(ascending) - 1, len(ascending) * percent // 100)] if ascending else 0.0
