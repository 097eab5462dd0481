"""The rights of each role are those in the table of docs/protocol.md."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourcePatternType  # type: ignore[attr-defined]

from resolver.errors import SettingsError
from resolver.kafka.rights import Principals, Right, rights
from resolver.settings import Group, Settings

PROTOCOL = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
GROUPS = {"orders": Group(("real",), "User:group")}


def documented() -> set[tuple[str, str, str, str]]:
    """Return who may do what on which kind of which name, from the table."""
    _, _, table = PROTOCOL.partition("| who | may | on | names |\n| --- | --- | --- | --- |\n")
    found, role = set(), ""
    for line in table.partition("\n\n")[0].splitlines():
        who, may, kind, names = (cell.strip() for cell in line.strip("|").split("|"))
        role = who or role
        for written in re.findall(r"`([^`]+)`", names):
            name = written.replace("<group>", "orders").replace("<real>", "real")
            found.add((f"User:{role}", may, kind, name))
    return found


def named(right: Right) -> tuple[str, str, str, str]:
    may = right.operation.name.title().replace("_", "")
    return right.principal, may, right.kind.name.lower().replace("_", " "), right.pattern


def test_each_role_is_granted_what_the_table_says() -> None:
    roles = ("resolver", "land", "operator", "auditor")
    everybody = Principals(*(f"User:{role}" for role in roles))
    granted = rights(Settings(groups=GROUPS), everybody)
    assert len(granted) == len(set(granted))
    fast = {name: replace(group, fast=True) for name, group in GROUPS.items()}
    more = set(rights(Settings(groups=fast), everybody)) - set(granted)
    of_fast = {("User:fast group", *named(right)[1:]) for right in more}
    assert {named(right) for right in granted} | of_fast == documented()


def test_what_runs_land_too_has_the_rights_of_both_each_once() -> None:
    both = rights(Settings(), Principals(resolver="User:up"))
    apart = rights(Settings(), Principals(resolver="User:up", land="User:land"))
    assert set(both) == {right._replace(principal="User:up") for right in apart}
    assert len(both) == len(set(both))


def test_without_the_setting_to_make_check_topics_there_is_no_right_to() -> None:
    granted = rights(Settings(create_check_topics=False), Principals(resolver="User:up"))
    assert "Create" not in {named(right)[1] for right in granted}


def test_the_topics_of_groups_become_patterns_of_kafka() -> None:
    groups = {"a": Group(("orders.*", "audit")), "*": Group(("txt",))}
    granted = rights(Settings(groups=groups), Principals(resolver="User:up"))
    bindings = [right.binding() for right in granted if right.operation.name == "WRITE"]
    patterns = {(one.name, one.resource_pattern_type) for one in bindings}
    literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    assert {("orders.", prefixed), ("audit", literal), ("txt", literal)} <= patterns
    assert ("tx.check.", prefixed) in patterns


@pytest.mark.parametrize("topic", ["*", "t*", "tx.*", "tx.half", "tx.check.a"])
def test_topics_of_a_group_among_which_are_the_resolvers_own_are_not_granted(topic: str) -> None:
    settings = Settings(groups={"a": Group(("audit", topic))})
    with pytest.raises(SettingsError, match=re.escape(f"[groups.a] has {topic!r}")):
        rights(settings, Principals(resolver="User:up"))
    assert rights(settings, Principals(operator="User:operator"))


@pytest.mark.parametrize("group", ["tx.resolver", "tx.reader"])
def test_no_group_is_granted_to_read_what_the_resolver_commits(group: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"[groups.{group!r}] is for no group")):
        rights(Settings(groups={group: Group((), "User:a")}), Principals())
    elsewhere = Settings(topic_prefix="dev.tx.", groups={group: Group((), "User:a")})
    assert rights(elsewhere, Principals())


@pytest.mark.parametrize("principal", ["", "anna", "User:", "User: ", ":anna", "User:*"])
def test_a_principal_is_written_as_kafka_has_it(principal: str) -> None:
    with pytest.raises(SettingsError, match=r"--land-principal is .* such as User:land"):
        Principals(land=principal)
