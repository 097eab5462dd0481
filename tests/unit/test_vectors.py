"""docs/protocol-vectors.json, which other languages test against, by the code: both ways."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from resolver import Message
from resolver.errors import MalformedHalf, MalformedOp
from resolver.producer.queue_choice import QueueChoice
from resolver.protocol import (
    DiscardReason,
    Element,
    Half,
    Headers,
    Names,
    Op,
    Outcome,
    QuarantineReason,
    Record,
    Refused,
    Resolution,
    Source,
    StoredHalf,
    StoredRecord,
    TransactionStatus,
    check_record,
    commit_record,
    decode_check,
    decode_half,
    decode_op,
    decode_resolution,
    decode_revoked,
    discarded_record,
    fence_record,
    half_fence_record,
    is_fence,
    is_revoked,
    legal_group,
    legal_topic,
    revoked_record,
)
from resolver.protocol.half_headers import immunity
from resolver.protocol.names import HALF_HEADERS, OUTPUT_HEADERS
from resolver.protocol.partitioner import partition_of
from resolver.protocol.policy import Policy, decode_policy
from resolver.resolve.step import Plan, QueueDecisions, StepSettings, ops_to_read, step

SECRET = "secret"  # noqa: S105
VECTORS = json.loads(
    (Path(__file__).parents[2] / "docs" / "protocol-vectors.json").read_text(encoding="utf-8")
)
NAMES = Names()


def named(vectors: list[Any]) -> list[Any]:
    return [pytest.param(vector, id=vector["name"]) for vector in vectors]


def content(written: Any) -> bytes | None:
    """Read bytes: text, hexadecimal or null."""
    if isinstance(written, dict):
        return bytes.fromhex(written["hex"])
    return None if written is None else str(written).encode()


def headers_of(written: list[Any]) -> Headers:
    return [(name, content(value)) for name, value in written]


def half_of(fields: dict[str, Any]) -> Half:
    known = fields | {
        "key": content(fields["key"]),
        "body": content(fields["body"]),
        "headers": headers_of(fields["headers"]),
    }
    return Half(**known)


def op_of(fields: dict[str, Any]) -> tuple[Op, list[int]]:
    """Return the op without its refused elements, and their positions."""
    elements = tuple(Element(**element) for element in fields["elements"])
    op = Op(
        TransactionStatus(fields["state"]),
        fields["group"],
        elements,
        fields["from_check"],
        fields["remark"],
        fields["actor"],
        delivered=fields.get("delivered", False),
        gives_up_fast=not fields.get("fast", True),
    )
    return op, fields["malformed"]


def record_of(written: dict[str, Any]) -> Record:
    partition, timestamp_ms = written["partition"], written["timestamp_ms"]
    return Record(
        written["topic"],
        content(written["key"]),
        content(written["value"]),
        headers_of(written["headers"]),
        -1 if partition is None else partition,
        timestamp_ms or 0,
    )


@pytest.mark.parametrize("vector", named(VECTORS["half"]["valid"]))
def test_halves(vector: Any) -> None:
    half, record = half_of(vector["fields"]), vector["record"]
    key, body, headers = content(record["key"]), content(record["value"]), record["headers"]
    assert decode_half(key, body, headers_of(headers)) == half
    encoded = half.to_record(NAMES.half)
    assert (encoded.key, encoded.value) == (key, body)
    assert (encoded.headers == headers_of(headers)) is vector["exact"]


@pytest.mark.parametrize("vector", named(VECTORS["half"]["malformed"]))
def test_malformed_halves(vector: Any) -> None:
    name = vector["header"]
    quoted = re.escape(f"header {name if name.isprintable() else repr(name)} ")
    with pytest.raises(MalformedHalf, match=quoted):
        decode_half(None, b"", headers_of(vector["headers"]))


def test_every_header_has_a_malformed_half() -> None:
    at_fault = {vector["header"] for vector in VECTORS["half"]["malformed"]}
    assert at_fault >= HALF_HEADERS | OUTPUT_HEADERS


@pytest.mark.parametrize("vector", named(VECTORS["op"]["valid"]))
def test_ops(vector: Any) -> None:
    (op, malformed), record = op_of(vector["fields"]), vector["record"]
    value, headers = content(record["value"]), headers_of(record["headers"])
    decoded = decode_op(value, headers)
    assert [position for position, _ in decoded.malformed] == malformed
    assert (decoded.state, decoded.group, decoded.elements) == (op.state, op.group, op.elements)
    assert (decoded.from_check, decoded.remark, decoded.actor) == (
        op.from_check,
        op.remark,
        op.actor,
    )
    assert (decoded.delivered, decoded.gives_up_fast) == (op.delivered, op.gives_up_fast)
    encoded = op.to_record(NAMES.op, 0)
    assert ((encoded.value, encoded.headers) == (value, headers)) is vector["exact"]


@pytest.mark.parametrize("vector", named(VECTORS["op"]["malformed"]))
def test_malformed_ops(vector: Any) -> None:
    value, headers = content(vector["record"]["value"]), headers_of(vector["record"]["headers"])
    assert not is_fence(value, headers)
    with pytest.raises(MalformedOp):
        decode_op(value, headers)


@pytest.mark.parametrize("record", VECTORS["op"]["fences"])
def test_fences(record: Any) -> None:
    headers = headers_of(record["headers"])
    assert is_fence(content(record["value"]), headers)
    assert fence_record(NAMES.op, 0).headers == headers


@pytest.mark.parametrize("vector", named(VECTORS["op"]["revoked"]))
def test_revocations(vector: Any) -> None:
    value, headers = content(vector["record"]["value"]), headers_of(vector["record"]["headers"])
    assert is_revoked(headers)
    assert decode_revoked(value, vector["queue"], SECRET) == vector["fast_id"]
    if vector["exact"]:
        encoded = revoked_record(NAMES.op, vector["queue"], vector["fast_id"], SECRET)
        assert (encoded.value, encoded.headers) == (value, headers)


def the_half() -> StoredHalf:
    at = VECTORS["outputs"]["half"]
    headers = headers_of(at["headers"])
    half = half_of(at["half"])
    assert decode_half(half.key, half.body, headers) == half
    return StoredHalf(at["queue"], at["offset"], at["stored_at_ms"], half, headers)


def test_a_commit() -> None:
    assert commit_record(the_half()) == record_of(VECTORS["outputs"]["commit"])


def test_a_check() -> None:
    vector, at = VECTORS["outputs"]["check"], the_half()
    record = record_of(vector["record"])
    assert check_record(at, vector["times"], NAMES) == record
    check = decode_check(record.value, record.headers)
    assert (check.half_id, check.times) == ((at.queue, at.offset), vector["times"])
    assert check.half == at.half


@pytest.mark.parametrize("vector", named(VECTORS["outputs"]["keys_of_checks"]))
def test_the_key_of_a_check_is_its_first_header(vector: Any) -> None:
    first, key, users = (vector[name] for name in ("first", "key", "users"))
    at, times = the_half(), VECTORS["outputs"]["check"]["times"]
    rest = check_record(at, times, NAMES).headers[1:]
    half = decode_check(at.half.body, [*headers_of(first), *rest]).half
    assert half.key == content(key)
    assert half.headers == [*headers_of(users), *at.half.headers]
    if first:
        sent = at._replace(half=half, all_headers=[*headers_of(users), *at.all_headers])
        assert check_record(sent, times, NAMES).headers == [*headers_of(first), *rest]


@pytest.mark.parametrize("vector", VECTORS["outputs"]["discarded"])
def test_discarded(vector: Any) -> None:
    reason = DiscardReason(vector["reason"])
    written = discarded_record(the_half(), vector["checks"], reason, vector["error"], NAMES)
    assert written == record_of(vector["record"])


@pytest.mark.parametrize("vector", VECTORS["outputs"]["resolution"])
def test_resolutions(vector: Any) -> None:
    fields = vector["fields"]
    said = Resolution(
        **fields | {"outcome": Outcome(fields["outcome"]), "source": Source(fields["source"])}
    )
    record = record_of(vector["record"])
    assert said.to_record(NAMES.resolution) == record
    assert decode_resolution(record.value) == said


@pytest.mark.parametrize("vector", VECTORS["outputs"]["policy"])
def test_policies(vector: Any) -> None:
    policy, record = Policy(vector["reject"], vector["topics"]), record_of(vector["record"])
    assert policy.to_record(NAMES.policy) == record
    assert decode_policy(record.value) == policy
    assert all(policy.refusal(*pair) for pair in vector["refused"])
    assert not any(policy.refusal(*pair) for pair in vector["not_refused"])


@pytest.mark.parametrize("vector", VECTORS["outputs"]["quarantine"])
def test_quarantined(vector: Any) -> None:
    fields = vector["refused"]
    refused = Refused(
        fields["source"],
        fields["element"],
        QuarantineReason(fields["reason"]),
        fields["error"],
        content(fields["key"]),
        content(fields["value"]),
        headers_of(fields["headers"]),
    )
    assert refused.to_record(NAMES, 1_048_576) == record_of(vector["record"])


def test_each_outcome_source_and_reason_has_a_vector() -> None:
    outputs = VECTORS["outputs"]
    said = [vector["fields"] for vector in outputs["resolution"]]
    assert {fields["outcome"] for fields in said} == {outcome.value for outcome in Outcome}
    assert {fields["source"] for fields in said} == {source.value for source in Source}
    reasons = {vector["reason"] for vector in outputs["discarded"]}
    assert reasons == {reason.value for reason in DiscardReason}
    refused = {vector["refused"]["reason"] for vector in outputs["quarantine"]}
    assert refused == {reason.value for reason in QuarantineReason}


@pytest.mark.parametrize("vector", VECTORS["immunity"])
def test_immunity(vector: Any) -> None:
    assert immunity(content(vector["value"])) == vector["seconds"]


def test_names() -> None:
    for kind, is_legal in (("topics", legal_topic), ("groups", legal_group)):
        assert all(map(is_legal, VECTORS["names"][kind]["legal"])), kind
        assert not any(map(is_legal, VECTORS["names"][kind]["illegal"])), kind


def murmur2(data: bytes) -> int:
    """Kafka's hash of keys as its documentation gives it, 32 bits, unsigned."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = (0x9747B28C ^ len(data)) & mask
    for start in range(0, len(data) - 3, 4):
        k = int.from_bytes(data[start : start + 4], "little") * m & mask
        h = h * m & mask ^ (k ^ k >> 24) * m & mask
    rest = data[len(data) & ~3 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


@pytest.mark.parametrize("vector", VECTORS["partitions"]["keys"])
def test_partitions_follow_from_the_hash(vector: Any) -> None:
    key = content(vector["key"])
    assert key is not None
    hashed = murmur2(key)
    assert hashed == vector["murmur2"] & 0xFFFFFFFF
    for count, partition in vector["partitions"].items():
        assert (hashed & 0x7FFFFFFF) % int(count) == partition
        assert partition_of(key, int(count)) == partition


@pytest.mark.parametrize("vector", VECTORS["partitions"]["queues"])
def test_the_queue_follows_from_the_key(vector: Any) -> None:
    key, ordering_key = content(vector["key"]), content(vector["ordering_key"])
    order = Message("orders.placed", b"", key, ordering_key=ordering_key).queue_key
    choice = QueueChoice(vector["queues"])
    queues = {choice.queue_of(order) for _ in range(32 * vector["queues"])}
    any_queue = set(range(vector["queues"]))
    assert queues == (any_queue if vector["queue"] is None else {vector["queue"]})


# Scenarios of one queue, through the step


def stored_half(half: dict[str, Any]) -> StoredRecord:
    if "fence_ops" in half:
        fence = half_fence_record("", 0, half["fence_ops"], SECRET)
        return stored(half, fence.value or b"", fence.headers)
    sent = Half(half["transaction_id"], "orders", "orders.placed", 1, None, b"body", [])
    headers = sent._replace(fast_id=half.get("fast")).to_record("").headers
    if "immunity" in half:
        headers.append(("CHECK_IMMUNITY_TIME_IN_SECONDS", content(half["immunity"])))
    return stored(half, b"body", headers)


def stored_op(op: dict[str, Any]) -> StoredRecord:
    if "fence" in op:
        return stored(op, b"", fence_record("", 0).headers)
    if "revoked" in op:
        revoked = revoked_record("", 0, op["revoked"], op.get("secret", SECRET))
        return stored(op, revoked.value or b"", revoked.headers)
    body = {name: value for name, value in op.items() if name not in ("offset", "stored_at_ms")}
    return stored(op, json.dumps(body).encode(), [("TAGS", b"d")])


def stored(at: dict[str, Any], value: bytes, headers: Headers) -> StoredRecord:
    return StoredRecord(at["offset"], at["stored_at_ms"], None, value, headers)


def told(decisions: QueueDecisions) -> dict[str, Any]:
    ended = [
        [
            end.stored_half.offset,
            end.outcome.value,
            end.source.value,
            *(["FAST"] if end.is_fast else []),
        ]
        for end in decisions.ended
    ]
    return {
        "ended": ended,
        "checks": [[check.stored_half.offset, check.checks] for check in decisions.checks],
        "refused": [[r.source, r.element, r.reason.value] for r in decisions.refused],
        "duplicates": decisions.duplicates,
        "pending": decisions.pending,
        "watermark_ms": decisions.watermark_ms,
        **({"revoke": list(decisions.revoke)} if decisions.revoke else {}),
    }


@pytest.mark.parametrize("scenario", named(VECTORS["scenarios"]["of_one_queue"]))
def test_scenarios(scenario: Any) -> None:
    state: dict[str, bytes] = {}
    unread: list[StoredRecord] = []
    plan = Plan(0, 0, 0)
    settings = StepSettings(**scenario["settings"])
    for number, batch in enumerate(scenario["batches"]):
        halves = [*map(stored_half, batch["halves"])]
        unread += map(stored_op, batch["ops"])
        halves_end = max((plan.halves_end, *(half.offset + 1 for half in halves)))
        ops_end = max((plan.ops_end, *(op.offset + 1 for op in unread)))
        plan = Plan(halves_end, plan.ops_end, ops_end)
        start, end = ops_to_read(state, 0, plan)
        unread = [op for op in unread if op.offset >= start]
        ops = [op for op in unread if op.offset < end]
        changes, decisions = step(state, 0, plan, halves, ops, batch["now_ms"], settings, SECRET)
        for key, value in changes.items():
            if value is None:
                del state[key]
            else:
                state[key] = value
        assert told(decisions) == batch["expected"], f"batch {number}"


def test_each_outcome_and_reason_of_the_step_is_in_a_scenario() -> None:
    expected = [
        batch["expected"]
        for scenario in VECTORS["scenarios"]["of_one_queue"]
        for batch in scenario["batches"]
    ]
    outcomes = {outcome for said in expected for _, outcome, *_ in said["ended"]}
    assert outcomes == {outcome.value for outcome in Outcome}
    reasons = {reason for said in expected for _, _, reason in said["refused"]}
    assert reasons == {reason.value for reason in QuarantineReason} - {
        "MALFORMED_HALF",
        "MALFORMED_OP",
    }
