"""`python -m model`: what scripts/model runs."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from . import delivery, fast
from .case import Case, planted
from .spin import ModelError, search

SMALL: tuple[Case, ...] = delivery.HOLDS + delivery.FAULTS + fast.HOLDS + fast.FAULTS
LARGE: tuple[Case, ...] = delivery.LARGE + fast.LARGE


def main() -> int:
    """Search each configuration; returns 1 where one is not as it must be."""
    parser = argparse.ArgumentParser(prog="scripts/model")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--only", metavar="NAME")
    given = parser.parse_args()
    cases = LARGE if given.large else SMALL
    if given.only:
        cases = tuple(case for case in SMALL + LARGE if case.name == given.only)
        if not cases:
            parser.error(f"there is no configuration {given.only!r}")
    wrong = [case.name for case in cases if not _is_as_it_must_be(case, bool(given.only))]
    return 1 if wrong else 0


def _is_as_it_must_be(case: Case, in_full: bool) -> bool:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        optimise = "-O2" if case in LARGE else "-O0"
        found = search(case.model, planted(case), Path(folder), optimise)
    if found.steps and (in_full or found.violated != case.violated):
        print(*found.steps, sep="\n")
    said = f"violates {found.violated!r}" if found.violated else "holds"
    if found.violated != case.violated:
        said += f", and should have {case.violated or 'held'!r}"
    seconds = time.monotonic() - begun
    print(
        f"{case.model.stem}, {case.name}: {said}; {found.states:,} states, {seconds:.0f} s",
        flush=True,
    )
    return found.violated == case.violated


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except ModelError as error:
        raise SystemExit(f"error: {error}") from None
