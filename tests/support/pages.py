"""Sections of the documentation's pages."""

from __future__ import annotations

import re


def section(page: str, heading: str) -> str:
    """Return the text below a heading such as `## The audit`, with the sections in it."""
    _, found, below = page.partition(f"\n{heading}\n")
    assert found, f"the page has no {heading!r}"
    level = len(heading.partition(" ")[0])
    return re.split(rf"\n#{{2,{level}}} ", below, maxsplit=1)[0]
