"""No transactional producer of ours begins a transaction that a late request could end."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Modules whose producers begin no second transaction in their epoch, and why.
NO_SECOND = {
    "resolver/operations/job.py": "each producer has one transaction",
    "resolver/resolve/proven_ends.py": "each producer has one transaction, and aborts it",
    "resolver/resolve/revoker.py": "a producer only initialises its id",
}


def transactional() -> dict[str, str]:
    """Return the texts of the modules that make transactional producers, by their paths."""
    found = {}
    for folder in ("resolver", "pipelines"):
        for file in (ROOT / folder).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            if '"transactional.id":' in text and " Producer(" in text:
                found[str(file.relative_to(ROOT))] = text
    return found


def test_each_uses_the_limit_of_an_epoch_or_has_a_reason() -> None:
    producers = transactional()
    limited = {
        path
        for path, text in producers.items()
        if "kafka.epoch import RETRY_OPTIONS, Epoch" in text and "_epoch.timed()" in text
    }
    assert set(producers) == limited | set(NO_SECOND)
