"""The command: writes the page, or says that it is out of date."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .page import render_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "api.md"


def main(arguments: list[str], page: Path = PAGE) -> int:
    """Write the page and return 0; with `--check` return 1 where the page would change."""
    parser = argparse.ArgumentParser(prog="scripts/api")
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args(arguments).check
    text = render_page(ROOT)
    if page.is_file() and page.read_text(encoding="utf-8") == text:
        return 0
    if check:
        print(f"error: {page} is not up to date: run scripts/api", file=sys.stderr)
        return 1
    page.write_text(text, encoding="utf-8")
    print(page)
    return 0
