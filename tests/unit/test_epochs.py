"""Each module with a transactional producer limits its epochs, or has a reason not to."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Modules of which no producer has a second transaction, and the transactions of a producer.
AT_MOST_ONE = {
    "resolver/operations/job.py": 1,
    "resolver/resolve/proven_ends.py": 1,
    "resolver/resolve/revoker.py": 0,
}
#: Modules whose producers have one transaction after another.
WITH_MANY = {
    "resolver/producer/fast/client.py",
    "resolver/resolve/delivery/batch_producer.py",
}
#: Each is needed: the wait before a request is repeated, the clock, and the end of an epoch.
LIMITS = ("**RETRY_OPTIONS", "_epoch.timed()", "_epoch.is_spent")


def transactional_modules() -> dict[str, str]:
    """Return the texts of the modules that make transactional producers, by their paths."""
    texts = {
        str(file.relative_to(ROOT)): file.read_text(encoding="utf-8")
        for folder in ("resolver", "pipelines")
        for file in (ROOT / folder).rglob("*.py")
    }
    return {
        path: text
        for path, text in texts.items()
        if '"transactional.id"' in text and "Producer(" in text
    }


def test_each_limits_its_epochs_or_has_no_second_transaction() -> None:
    modules = transactional_modules()
    assert modules.keys() == AT_MOST_ONE.keys() | WITH_MANY
    for path, text in modules.items():
        if path in AT_MOST_ONE:
            assert text.count(".begin_transaction(") == AT_MOST_ONE[path], path
        else:
            assert [limit for limit in LIMITS if limit not in text] == [], path
