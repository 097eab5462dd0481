"""README.md and the pages of docs/, compared with the code."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main
from sqlalchemy.exc import IntegrityError

from resolver import Message, TransactionStatus
from resolver.audit.report import Invariant
from resolver.broker.jars import SPARK
from resolver.broker.tools import TOOLS
from resolver.cli import app
from resolver.errors import AuditError, NoBroker, Replaced, SettingsError, TxResolverError
from resolver.protocol import DiscardReason, Half, HalfId, Names, Outcome, QuarantineReason, Source
from resolver.protocol import TransactionStatus as Status
from resolver.protocol import names as n
from resolver.settings import Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PAGES = {
    str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "node_modules" not in page.parts
}
README = PAGES["README.md"]
APPLICATION = PAGES["docs/application.md"]
PRODUCER = PAGES["docs/producer.md"]
OPERATING = PAGES["docs/operating.md"]
CLUSTER = PAGES["docs/cluster.md"]
CONTRIBUTING = PAGES["docs/CONTRIBUTING.md"]
VERSIONS = PAGES["docs/versions.md"]
PROTOCOL = PAGES["docs/protocol.md"]
AUDIT = PAGES["docs/audit.md"]
#: The pages with commands, one after the other.
COMMANDS = "\n".join(
    (
        README,
        APPLICATION,
        PRODUCER,
        OPERATING,
        PAGES["docs/monitoring.md"],
        CLUSTER,
        CONTRIBUTING,
        AUDIT,
        PROTOCOL,
    )
)
#: The extras for users of the library; `dev` is for those who change it.
USERS = ("cli", "ledger", "metrics", "traces", "sql", "spark", "notebooks")
HOUR_MS = 3_600_000
ROLLBACK = TransactionStatus.ROLLBACK_MESSAGE


def examples() -> list[str]:
    """Return the Python of the README and of the page that goes on from it."""
    return re.findall(r"```python\n(.*?)```", README + APPLICATION, re.DOTALL)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """The examples as one module, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    module = ModuleType("readme")
    for code in examples():
        exec(compile(code, "example", "exec"), module.__dict__)  # noqa: S102
    module.log.metadata.create_all(module.engine)
    yield module
    module.engine.dispose()


def asked(transaction_id: str, age_ms: int) -> Message:
    born_at_ms = time.time_ns() // 1_000_000 - age_ms
    half = Half(transaction_id, "orders", "orders.placed", born_at_ms, None, b"{}", [])
    return Message.of_half(half, HalfId(0, 17), check_times=1)


def test_there_are_examples() -> None:
    assert len(examples()) == 4


def test_the_examples_listener_knows_what_it_committed(example: Any) -> None:
    example.place("lamp", "id-1")
    answer = example.listener.check_local_transaction(asked("id-1", 0))
    assert answer is TransactionStatus.COMMIT_MESSAGE


@pytest.mark.parametrize("age_ms", [0, HOUR_MS, -HOUR_MS])
def test_what_the_examples_listener_rolled_back_can_not_be_placed_any_more(
    example: Any, age_ms: int
) -> None:
    """By a process that is only slow, whose clock is right, or an hour behind, or ahead."""
    assert example.listener.check_local_transaction(asked("id-2", age_ms)) is ROLLBACK
    with pytest.raises(IntegrityError):
        example.place("lamp", "id-2")
    with example.engine.connect() as connection:
        assert connection.execute(example.orders.select()).all() == []
    assert example.listener.check_local_transaction(asked("id-2", age_ms)) is ROLLBACK


def test_rocketmqs_form_of_the_example_commits_its_local_transaction(example: Any) -> None:
    listener, message = example.OrderListener(example.engine, example.log), asked("id-3", 0)
    said = listener.execute_local_transaction(message, "chair")
    assert said is listener.check_local_transaction(message) is TransactionStatus.COMMIT_MESSAGE


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    links = set(re.findall(r"\]\(([^)\s]+)\)", PAGES[page]))
    broken = [link for link in links if "://" not in link and not leads_somewhere(page, link)]
    assert broken == []


def leads_somewhere(page: str, link: str) -> bool:
    """Whether a link from a page names a file that is there, and a heading of it."""
    name, _, anchor = link.partition("#")
    target = (ROOT / page).parent / name if name else ROOT / page
    if not target.exists():
        return False
    return not anchor or anchor in anchors(target.read_text(encoding="utf-8"))


def anchors(text: str) -> set[str]:
    """Return the names of a page's headings, as GitHub makes them."""
    without_code = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", without_code, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_of_the_docs_has_every_page() -> None:
    linked = re.findall(r"\]\(([^)#]+)", PAGES["docs/README.md"])
    there = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert there - set(linked) == set()


def options(*command: str) -> set[str]:
    found: Any = typer.main.get_command(app)
    for name in command:
        found = found.commands[name]
    return {option for parameter in found.params for option in parameter.opts}


def test_the_options_of_up_are_those_in_the_table() -> None:
    table = set(re.findall(r"^\| `(--[a-z-]+)", OPERATING, re.MULTILINE))
    assert table == options("up")


@pytest.mark.parametrize("line", sorted(set(re.findall(r"txresolver ([a-z]+[^`\n#]*)", COMMANDS))))
def test_commands_take_what_the_pages_give_them(line: str) -> None:
    words = line.split()
    if words[0] == "kafka":  # its options are the tool's; tests/kafka/test_broker.py runs some
        assert set(words[1:2]) <= set(TOOLS)
        return
    command = [word for word in words[:2] if re.fullmatch(r"[a-z]+", word)]
    assert {word for word in words if word.startswith("--")} <= options(*command)


def test_scripts_that_the_pages_name_are_there() -> None:
    named = set(re.findall(r"\bscripts/([a-z]+)", "\n".join(PAGES.values())))
    assert named
    assert [name for name in named if not (ROOT / "scripts" / name).is_file()] == []


def test_the_command_that_prints_the_logs_statements_does_so() -> None:
    (line,) = re.findall(r"```sh\n(python -c .*)\n```", PAGES["docs/sql.md"])
    words = [sys.executable, *shlex.split(line)[1:]]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said.startswith("CREATE TABLE transaction_log")


def test_the_file_of_groups_is_read_as_it_stands(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGES["docs/settings.md"], re.DOTALL)
    (tmp_path / "resolver.toml").write_text(text, encoding="utf-8")
    groups = Settings.load(tmp_path / "resolver.toml", {}).groups
    assert groups["orders"].topics == ("orders.*", "audit")


def test_exit_codes() -> None:
    assert "| 3 | another resolver took over" in OPERATING and Replaced.exit_code == 3
    assert "| 2 | a setting" in OPERATING and SettingsError.exit_code == 2
    assert "| 1 | it failed" in OPERATING and TxResolverError.exit_code == 1
    assert "no broker answered within 30 s" in OPERATING and NoBroker.exit_code == 1


def test_the_ranges_of_packages_are_those_that_pip_is_told() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *(each for name in USERS for each in extras[name])]
    wanted = {each.partition(";")[0] for each in needed if not each.startswith("txresolver")}
    rows = re.findall(r"^\| `([^`]+)` \| `([<>=][^`]+)` \|", VERSIONS, re.MULTILINE)
    assert {name + ranges for name, ranges in rows} == wanted
    assert f"| Python | {project['requires-python'].strip('>=')} or newer |" in VERSIONS


def test_deltas_package_is_of_the_version_of_its_jar() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (version,) = re.findall(r'"delta-spark==([\d.]+)"', project)
    assert f"io.delta:delta-spark_4.2_2.13:{version}" in SPARK


def test_the_audits_invariants_options_and_exit_codes_are_in_its_document() -> None:
    names = re.findall(r"^\| `([a-z_]+)` \|", AUDIT, re.MULTILINE)
    assert names == [invariant.value for invariant in Invariant]
    assert set(re.findall(r"`(--[a-z-]+)[ `]", AUDIT)) >= options("audit")
    assert "| 4 | it could not audit" in AUDIT and AuditError.exit_code == 4


def test_the_packages_for_clusters_are_those_of_this_project() -> None:
    (packages,) = re.findall(r"PACKAGES=(\S+)", CLUSTER)
    assert set(packages.split(",")) == {jar for jar in SPARK if "token-provider" not in jar}


@pytest.mark.parametrize(
    "enum", [Outcome, Source, DiscardReason, QuarantineReason, Status], ids=lambda e: e.__name__
)
def test_the_protocol_has_every_outcome_and_reason(enum: Any) -> None:
    assert [member.value for member in enum if member.value not in PROTOCOL] == []


def test_the_protocol_has_every_header_and_topic() -> None:
    headers = n.HALF_HEADERS | n.OUTPUT_HEADERS | {n.TAGS, n.RESOLUTION}
    assert [name for name in headers if f"`{name}`" not in PROTOCOL] == []
    names = Names()
    topics = (names.half, names.op, names.resolution, names.discarded, names.quarantine)
    for topic in (*topics, names.parked, names.marker, names.check("<group>")):
        assert f"`{topic}`" in PROTOCOL


def test_the_defaults_that_the_protocol_names_are_the_settings() -> None:
    said = re.findall(r"`([a-z_]+)`\s\((\d+|true|false)\)", PROTOCOL)
    assert len(said) > 10
    defaults = vars_of(Settings())
    assert [(name, value) for name, value in said if defaults[name] != value] == []


def vars_of(settings: Settings) -> dict[str, str]:
    names = Settings.__dataclass_fields__
    return {name: str(getattr(settings, name)).lower() for name in names}
