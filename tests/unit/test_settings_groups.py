"""[groups.<name>] in a settings file."""

from __future__ import annotations

from pathlib import Path

import pytest

from resolver.errors import SettingsError
from resolver.settings import Group, Settings


def loaded(folder: Path, toml: str) -> Settings:
    path = folder / "resolver.toml"
    path.write_text(toml)
    return Settings.load(path, {}, {})


def test_sections_are_read_with_their_origin(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        '[groups.orders]\ntopics = ["orders.*", "audit"]\nprincipal = "User:orders"\n'
        '[groups."eu.pay"]\nfast = true\n[groups."*"]\ntopics = []\n',
    )
    assert settings.groups == {
        "orders": Group(("orders.*", "audit"), "User:orders"),
        "eu.pay": Group(fast=True),
        "*": Group(()),
    }
    origin = f"file {tmp_path / 'resolver.toml'}"
    assert settings.shown()[-3:] == [
        ("groups.*", "topics: none", origin),
        ("groups.eu.pay", "fast", origin),
        ("groups.orders", "topics: orders.*, audit; principal: User:orders", origin),
    ]


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("groups = 1", "give tables, [groups.orders]"),
        ("[groups]\norders = 1", "groups in .* has 'orders'; give a table, [groups.orders]"),
        ("[groups.eu.pay]\ntopics = []", 'has dots: [groups."eu.pay"]'),
        ("[groups.orders]\ntopic = []", "has 'topic'; give topics, principal or fast"),
        ("[groups.orders]\ntopics = 'x'", "is 'x'; give a list, as in topics = [\"orders.*\"]"),
        ("[groups.orders]\ntopics = [5]", "has 5; give a topic's name"),
        ("[groups.orders]\ntopics = ['']", "has ''; give a topic's name"),
        ("[groups.orders]\ntopics = ['a*b']", "has 'a*b'; give a topic's name"),
        ("[groups.orders]\ntopics = ['a?']", "has 'a?'; give a topic's name"),
        ("[groups.orders]\ntopics = ['**']", "has '**'; give a topic's name"),
        ("[groups.'a b']", "[groups.'a b'] is for no group; give 1 to 200 of"),
        ("[groups.'tx.a']", "[groups.'tx.a'] is for no group; names under topic_prefix ('tx.')"),
        ("[groups.'a.b']\n[groups.a_b]", "groups 'a.b' and 'a_b' differ only in . and _"),
        ("[groups.orders]\nprincipal = 'orders'", "is 'orders'; give it as Kafka's ACLs have it"),
        ("[groups.orders]\nprincipal = 'User:*'", "such as 'User:orders', and not everybody"),
        ("[groups.orders]\nprincipal = 5", "is 5; give it as Kafka's ACLs have it"),
        ("[groups.orders]\nfast = 'yes'", "fast of [groups.orders] is 'yes'; give true or false"),
        ("[groups.'*']\nprincipal = 'User:x'", "give it to the groups by name"),
    ],
)
def test_what_a_section_can_not_say_is_refused(toml: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        loaded(tmp_path, toml)
    before, _, after = said.partition(" in .* ")
    assert before in str(refused.value)
    assert after in str(refused.value)


def test_groups_are_given_in_a_file_only() -> None:
    for layer in (
        {"overrides": {"groups.orders.topics": "a"}, "environ": {}},
        {"overrides": {}, "environ": {"TXRESOLVER_GROUPS__ORDERS_TOPICS": "a"}},
    ):
        with pytest.raises(SettingsError, match="can be given in a file only"):
            Settings.load(None, **layer)
