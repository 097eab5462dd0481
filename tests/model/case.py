"""A configuration of a model, and what spin must find in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .spin import ROOT

MODELS = ROOT / "docs" / "models"


class Case(NamedTuple):
    """A configuration, and the assertion that fails in it; None: none does."""

    model: Path
    name: str
    macros: Mapping[str, int]
    violated: str | None = None


def planted(case: Case) -> Mapping[str, int]:
    """Return the macros of a fault: a rule that is its name is not kept."""
    return {**case.macros, case.name: 0} if case.name.isupper() else case.macros
