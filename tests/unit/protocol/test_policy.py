"""The policy: what it refuses, and its record."""

from __future__ import annotations

import orjson
import pytest

from resolver.errors import ProtocolError
from resolver.protocol.policy import VERSION, Policy, Refusals, decode_policy

SOME = Policy(False, {"orders": ["orders.*", "audit"], "*": []})


@pytest.mark.parametrize(
    ("policy", "group", "topic", "delivered"),
    [
        (Policy(False, {}), "orders", "anything", True),
        (SOME, "orders", "orders.placed", True),
        (SOME, "orders", "audit", True),
        (SOME, "orders", "audits", False),
        (SOME, "pay", "orders.placed", False),
        (Policy(False, {"orders": []}), "pay", "anything", True),
        (Policy(True, {"orders": ["orders.*"]}), "orders", "orders.placed", False),
    ],
)
def test_a_policy_refuses_by_group_and_topic(
    policy: Policy, group: str, topic: str, delivered: bool
) -> None:
    assert (policy.refusal(group, topic) == "") is delivered
    assert Refusals(policy)[group, topic] == policy.refusal(group, topic)


def test_a_refusal_names_the_group_the_topic_and_what_is_set() -> None:
    said = SOME.refusal("orders", "payments")
    assert said == (
        "group 'orders' may not publish to topic payments: its topics in the settings are "
        "orders.*, audit"
    )
    assert SOME.refusal("pay", "audit").endswith("its topics in the settings are none")
    many = Policy(False, {"pay": [f"pay.{number}" for number in range(1_000)]})
    assert many.refusal("pay", "audit").endswith("pay.3, pay.4 and 995 more")


@pytest.mark.parametrize("policy", [SOME, Policy(True, {}), Policy(False, {})])
def test_a_policys_record_is_read_back(policy: Policy) -> None:
    record = policy.to_record("tx.policy")
    assert (record.topic, record.key, record.partition) == ("tx.policy", b"policy", 0)
    assert decode_policy(record.value) == policy


def test_unknown_fields_are_ignored() -> None:
    fields = {"version": VERSION, "reject": True, "topics": {}, "more": [1]}
    assert decode_policy(orjson.dumps(fields)) == Policy(True, {})


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"version":1,"reject":1,"topics":{}}',
        b'{"version":1,"reject":false,"topics":[]}',
        b'{"version":1,"reject":false,"topics":{"orders":"orders.*"}}',
        b'{"version":1,"reject":false,"topics":{"orders":[1]}}',
    ],
)
def test_another_record_is_no_policy(value: bytes | None) -> None:
    with pytest.raises(ProtocolError, match="is no policy"):
        decode_policy(value)


def test_another_version_is_not_read() -> None:
    value = SOME.to_record("tx.policy").value or b""
    with pytest.raises(ProtocolError, match="its version is 2, and 1 is known here"):
        decode_policy(value.replace(b'"version":1', b'"version":2'))
