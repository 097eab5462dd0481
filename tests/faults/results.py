"""Results as they come, a line of JSON each: what was played is not played again."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.support.commit import commit

from .fault_error import FaultError

#: Between the name of a world that is set aside and the number of the round that failed.
FAILED = ".failed-"


@dataclass(frozen=True)
class Result:
    """What became of a round; times in seconds.

    `recovery` is until a new transaction was visible; None: none was.
    """

    number: int
    world: str
    fault: str
    what: str
    proof: str
    took: float
    recovery: float | None
    transactions: int
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)
    error: str = ""
    commit: str = ""
    #: What a message that its producer committed took at most, from the fault or from its half.
    slowest: float | None = None

    @property
    def failed(self) -> bool:
        return bool(self.lost or self.doubled or self.wrong or self.error)


@dataclass(frozen=True)
class Audit:
    """What the audit of a world said; the exit code is 0 where all invariants hold."""

    audited: str
    exit_code: int
    said: str
    transactions: int = 0


class Results:
    """The file: its first line is the campaign, the others are rounds and audits.

    Nothing is ever taken out. Where a world is begun `again`, a line says so, and what was played
    in it before that line counts no more.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, campaign: dict[str, Any]) -> None:
        """Begin a new file; raises `FaultError` where one is there that may be gone on with."""
        if self.begun:
            raise FaultError(
                f"{self._path} has results of another campaign: go on with --resume, or give "
                "another --home"
            )
        self._append(campaign)

    @property
    def begun(self) -> bool:
        """Whether there is a campaign."""
        return self._path.exists()

    def campaign(self) -> dict[str, Any]:
        """Return what the campaign was begun with; raises `FaultError` where nothing says so."""
        if not self.begun:
            raise FaultError(
                f"{self._path} is not there: nothing to go on with; leave out --resume"
            )
        first = next(iter(self._lines()), {})
        if "seed" not in first:
            raise FaultError(
                f"{self._path} does not begin with a campaign, as when it was killed at once: "
                "remove it, and begin again without --resume"
            )
        return first

    def rounds(self) -> list[Result]:
        """Return them in the order in which they were played, each as it was played last."""
        played: dict[int, Result] = {}
        for line in self._split()[0]:
            if "number" in line:
                played.pop(line["number"], None)
                played[line["number"]] = Result(**line)
        return list(played.values())

    def audits(self) -> list[Audit]:
        return [Audit(**line) for line in self._split()[0] if "audited" in line]

    def begin_again(self, world: str) -> None:
        """Let what was played in a world count no more: it is played by the code of now."""
        self._append({"again": world, "commit": commit()})

    @property
    def again(self) -> dict[str, int]:
        """How many rounds of each world count no more, as it was begun again."""
        _, others = self._split()
        return Counter(_world_of(line) for line in others if "number" in line)

    def _split(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the lines of rounds and audits that count, and of those that count no more."""
        counting: list[dict[str, Any]] = []
        others: list[dict[str, Any]] = []
        for line in self._lines()[1:]:
            if "again" in line:
                others += [earlier for earlier in counting if _world_of(earlier) == line["again"]]
                counting = [earlier for earlier in counting if _world_of(earlier) != line["again"]]
            else:
                counting.append(line)
        return counting, others

    @property
    def planned(self) -> int:
        """How many rounds the whole campaign has."""
        return sum(self.campaign()["counts"].values())

    @property
    def audited(self) -> set[str]:
        """The worlds that were audited; one in which a round failed is there by another name."""
        return {audit.audited for audit in self.audits()}

    @property
    def hold(self) -> bool:
        """Whether all was played and audited, and every round and audit was as it must be."""
        rounds = self.rounds()
        return (
            len(rounds) == self.planned
            and not any(result.failed for result in rounds)
            and all(self.is_clean(audit) for audit in self.audits())
            and {result.world for result in rounds} <= self.audited
        )

    def is_clean(self, audit: Audit) -> bool:
        """Whether all invariants hold, in a world that has what each of its rounds added to it."""
        played = sum(
            result.transactions for result in self.rounds() if result.world == audit.audited
        )
        return audit.exit_code == 0 and audit.transactions >= played

    def add(self, entry: Result | Audit) -> None:
        self._append(asdict(entry))

    def _append(self, entry: dict[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":  # a kill has cut the last one short
                    file.write(b"\n")
            file.write(self._line(entry).encode() + b"\n")

    def _line(self, entry: dict[str, Any]) -> str:
        """Return it with paths as seen from its own folder, wherever on this machine that is."""
        here = json.dumps(f"{self._path.parent}/")[1:-1]
        return json.dumps(entry).replace(here, "")

    def _lines(self) -> list[dict[str, Any]]:
        return list(_whole(self._path.read_text().split("\n")))


def _world_of(line: dict[str, Any]) -> str:
    """Return the world of a round or an audit, whatever it was called when a round had failed."""
    name: str = line.get("world") or line["audited"]
    return name.partition(FAILED)[0]


def _whole(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Leave out what a kill has cut short."""
    for line in lines:
        with suppress(ValueError):
            yield json.loads(line)
