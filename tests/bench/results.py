"""Results, a line of JSON each, appended as they come; read back as medians and their spread."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from resolver.errors import ResolverError

#: What a measurement found: numbers by name, some of them dictionaries again, by process.
Figures = dict[str, Any]
#: The number of a run in a file, and of its round.
Round = tuple[int, int]
#: A case of a measurement, and its figures.
CaseFigures = tuple[str, Figures]


def per_million(cpu: Mapping[str, float], transactions: float) -> dict[str, dict[str, float]]:
    """Return the CPU seconds of a million transactions, by process."""
    each = 1_000_000 / max(transactions, 1)
    return {"cpu_per_million": {role: seconds * each for role, seconds in cpu.items()}}


class ResultFile:
    """Appends to a file, so that a run that is interrupted keeps what it has."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(
        self, command: str, code: str, machine: Mapping[str, str], settings: Mapping[str, str]
    ) -> None:
        """Begin a run; `code` is the commit that it measures."""
        self._append(
            {
                "run": command,
                "code": code,
                "at": _now(),
                "machine": dict(machine),
                "settings": dict(settings),
            }
        )

    def add(self, round_: int, measurement: str, case: str, figures: Figures) -> None:
        """Keep what a measurement found in a round."""
        self._append(
            {
                "measurement": measurement,
                "case": case,
                "round": round_,
                "at": _now(),
                "figures": figures,
            }
        )

    def _append(self, entry: Mapping[str, Any]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


class Spread(NamedTuple):
    """A figure over some rounds: its median, least and most."""

    median: float
    least: float
    most: float
    rounds: int


class Results:
    """What one or several runs on one machine found."""

    def __init__(self, entries: Iterable[Mapping[str, Any]]) -> None:
        all_ = list(entries)
        self.runs = [entry for entry in all_ if "run" in entry]
        self._entries = list(_of_rounds(all_))
        if not self.runs or not self._entries:
            raise ResolverError("these are no results of scripts/bench: nothing was measured yet")
        self.machine: dict[str, str] = self.runs[0]["machine"]
        if any(run["machine"] != self.machine for run in self.runs):
            raise _unlike("machines")
        #: By measurement.
        self.settings: dict[str, dict[str, str]] = {}
        for (run, _), entry in self._entries:
            settings = self.runs[run - 1]["settings"]
            if self.settings.setdefault(entry["measurement"], settings) != settings:
                raise _unlike(f"settings of {entry['measurement']}")

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read a file; raises `ResolverError` for what is none of ours."""
        try:
            return cls([json.loads(line) for line in path.read_text().splitlines()])
        except (OSError, ValueError) as error:
            raise ResolverError(f"{path} has no results: {error}") from error

    def measurements(self) -> list[str]:
        """Return what was measured, in its order."""
        return list(self.settings)

    def cases(self, measurement: str) -> list[str]:
        """Return the cases of a measurement, in their order."""
        cases = (entry["case"] for _, entry in self._entries if entry["measurement"] == measurement)
        return list(dict.fromkeys(cases))

    def parts(self, measurement: str, case: str, figure: str) -> list[str]:
        """Return the processes that a figure is given for."""
        parts = (
            part
            for figures in self._by_round(measurement, case, figure).values()
            for part in figures
        )
        return list(dict.fromkeys(parts))

    def spread(
        self, measurement: str, case: str, figure: str, part: str | None = None
    ) -> Spread | None:
        """Return a figure over all rounds, None where there is none.

        A process that only some rounds had has done nothing in the others.
        """
        figures: list[Any] = list(self._by_round(measurement, case, figure).values())
        if part is not None:
            had = any(part in by_part for by_part in figures)
            figures = [by_part.get(part, 0.0) for by_part in figures] if had else []
        return _spread(figures)

    def overall(self, figure: str) -> Spread | None:
        """Return a figure over all cases of all rounds that have it."""
        figures = [entry["figures"] for _, entry in self._entries]
        return _spread([of_case[figure] for of_case in figures if figure in of_case])

    def ratio(self, over: tuple[str, str, str], under: tuple[str, str, str]) -> Spread | None:
        """Return the ratio of two figures (measurement, case, figure), round by round."""
        overs, unders = self._by_round(*over), self._by_round(*under)
        return _spread([overs[round_] / unders[round_] for round_ in overs if round_ in unders])

    def _by_round(self, measurement: str, case: str, figure: str) -> dict[Round, Any]:
        return {
            round_: entry["figures"][figure]
            for round_, entry in self._entries
            if (entry["measurement"], entry["case"]) == (measurement, case)
            and figure in entry["figures"]
        }


def _unlike(what: str) -> ResolverError:
    return ResolverError(
        f"these results are of different {what}; a report has medians only of what was measured "
        "alike: give each its own file"
    )


def _of_rounds(entries: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Round, Mapping[str, Any]]]:
    """Yield what was measured, and which round of which run that was."""
    run = 0
    for entry in entries:
        if "run" in entry:
            run += 1
        elif "measurement" in entry:
            yield (run, entry["round"]), entry


def _spread(figures: list[float]) -> Spread | None:
    if not figures:
        return None
    return Spread(statistics.median(figures), min(figures), max(figures), len(figures))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
