"""What README.md and docs/protocol.md say, against the code."""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main

from resolver import Message, TransactionStatus
from resolver.audit.report import Invariant
from resolver.broker.jars import SPARK
from resolver.cli import app
from resolver.errors import AuditError, Replaced, SettingsError, TxResolverError
from resolver.protocol import (
    DiscardReason,
    Half,
    Names,
    Outcome,
    QuarantineReason,
    Source,
)
from resolver.protocol import (
    TransactionStatus as Status,
)
from resolver.protocol import names as n
from resolver.settings import Settings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
AUDIT = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
HOUR_MS = 3_600_000
ROLLBACK = TransactionStatus.ROLLBACK_MESSAGE


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The README's Python as one module, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    module = ModuleType("readme")
    for code in examples():
        exec(compile(code, "README.md", "exec"), module.__dict__)  # noqa: S102
    return module


def asked(transaction_id: str, age_ms: int) -> Message:
    born_at_ms = time.time_ns() // 1_000_000 - age_ms
    half = Half(transaction_id, "orders", "orders.placed", born_at_ms, None, b"{}", [])
    return Message.of_half(half, 0, 17, check_times=1)


def test_there_are_examples() -> None:
    assert len(examples()) == 4


def test_the_examples_listener_knows_what_it_committed(example: Any) -> None:
    orders = example.Orders()
    orders.place("lamp", "id-1")
    assert orders.check_local_transaction(asked("id-1", 0)) is TransactionStatus.COMMIT_MESSAGE


@pytest.mark.parametrize("age_ms", [0, HOUR_MS, -HOUR_MS])
def test_what_the_examples_listener_rolled_back_can_not_be_placed_any_more(
    example: Any, age_ms: int
) -> None:
    """By a process that is only slow, whose clock is right, or an hour behind, or ahead."""
    orders = example.Orders()
    assert orders.check_local_transaction(asked("id-2", age_ms)) is ROLLBACK
    with pytest.raises(sqlite3.IntegrityError):
        orders.place("lamp", "id-2")
    with closing(sqlite3.connect(orders.path)) as db:
        assert db.execute("SELECT * FROM orders").fetchall() == []
    assert orders.check_local_transaction(asked("id-2", age_ms)) is ROLLBACK


def test_rocketmqs_form_of_the_example_commits_its_local_transaction(example: Any) -> None:
    listener, message = example.OrderListener(), asked("id-3", 0)
    said = listener.execute_local_transaction(message, "chair")
    assert said is listener.check_local_transaction(message) is TransactionStatus.COMMIT_MESSAGE


@pytest.mark.parametrize(
    ("path", "text"),
    [("", README), ("docs", PROTOCOL), ("docs", DESIGN), ("docs", AUDIT)],
    ids=lambda _: "",
)
def test_links_lead_somewhere(path: str, text: str) -> None:
    links = {link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link}
    assert links
    assert [link for link in links if not (ROOT / path / link).exists()] == []


def options(*command: str) -> set[str]:
    found: Any = typer.main.get_command(app)
    for name in command:
        found = found.commands[name]
    return {option for parameter in found.params for option in parameter.opts}


def test_the_options_of_up_are_those_in_the_table() -> None:
    table = set(re.findall(r"^\| `(--[a-z-]+)", README, re.MULTILINE))
    assert table == options("up")


@pytest.mark.parametrize("line", re.findall(r"txresolver ([a-z]+[^`\n#]*)", README))
def test_commands_take_what_the_readme_gives_them(line: str) -> None:
    words = line.split()
    command = [word for word in words[:2] if re.fullmatch(r"[a-z]+", word)]
    assert {word for word in words if word.startswith("--")} <= options(*command)


def test_exit_codes() -> None:
    assert "| 3 | another resolver took over" in README and Replaced.exit_code == 3
    assert "| 2 | a setting" in README and SettingsError.exit_code == 2
    assert "| 1 | it failed" in README and TxResolverError.exit_code == 1


def test_the_audits_invariants_options_and_exit_codes_are_in_its_document() -> None:
    names = re.findall(r"^\| `([a-z_]+)` \|", AUDIT, re.MULTILINE)
    assert names == [invariant.value for invariant in Invariant]
    assert set(re.findall(r"`(--[a-z-]+)[ `]", AUDIT)) >= options("audit")
    assert "| 4 | it could not audit" in AUDIT and AuditError.exit_code == 4


def test_the_packages_for_clusters_are_those_of_this_project() -> None:
    (packages,) = re.findall(r"PACKAGES=(\S+)", README)
    assert set(packages.split(",")) == {jar for jar in SPARK if "token-provider" not in jar}


@pytest.mark.parametrize(
    "enum", [Outcome, Source, DiscardReason, QuarantineReason, Status], ids=lambda e: e.__name__
)
def test_the_protocol_has_every_outcome_and_reason(enum: Any) -> None:
    assert [member.value for member in enum if member.value not in PROTOCOL] == []


def test_the_protocol_has_every_header_and_topic() -> None:
    headers = n.HALF_HEADERS | n.OUTPUT_HEADERS | {n.TAGS}
    assert [name for name in headers if f"`{name}`" not in PROTOCOL] == []
    names = Names()
    topics = (names.half, names.op, names.resolution, names.discarded, names.quarantine)
    for topic in (*topics, names.marker, names.check("<group>")):
        assert f"`{topic}`" in PROTOCOL


def test_the_defaults_that_the_protocol_names_are_the_settings() -> None:
    said = re.findall(r"`([a-z_]+)`\s\((\d+|true|false)\)", PROTOCOL)
    assert len(said) > 10
    defaults = vars_of(Settings())
    assert [(name, value) for name, value in said if defaults[name] != value] == []


def vars_of(settings: Settings) -> dict[str, str]:
    names = Settings.__dataclass_fields__
    return {name: str(getattr(settings, name)).lower() for name in names}
