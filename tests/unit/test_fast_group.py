"""What a group commit writes, and how long failures count."""

from __future__ import annotations

import pytest

from resolver.producer.fast.group import group_records
from resolver.producer.fast.pauses import Minutes, Pause
from resolver.protocol import Half, Names, Op, Record, StoredHalf, commit_record, decode_op
from resolver.protocol.names import MAX_OP_ELEMENTS

NAMES = Names("tx.")


def stored_half(queue: int, offset: int) -> StoredHalf:
    half = Half(
        f"t-{queue}-{offset}", "orders", "orders.placed", 17, b"key", b"body",
        [("a", b"1"), ("a", None)], 1, 9, NAMES.fast_id("orders", "f"),
    )  # fmt: skip
    return StoredHalf(queue, offset, 1_700_000_000_123, half, half.to_record(NAMES.half).headers)


def written(*halves: StoredHalf, op_max_bytes: int = 1_000_000) -> tuple[list[Record], list[Op]]:
    records = group_records(halves, "orders", NAMES, op_max_bytes)
    ops = [record for record in records if record.topic == NAMES.op]
    assert records[len(records) - len(ops) :] == ops
    decoded = [decode_op(op.value, op.headers) for op in ops]
    for op, decided in zip(ops, decoded, strict=True):
        assert {element.transaction_id.split("-")[1] for element in decided.elements} == {
            str(op.partition)
        }
    return records[: len(records) - len(ops)], decoded


def test_messages_are_what_the_resolver_would_deliver_in_the_order_of_the_commits() -> None:
    halves = [stored_half(1, 7), stored_half(0, 3), stored_half(1, 2)]
    messages, _ = written(*halves)
    assert messages == [commit_record(at) for at in halves]
    assert messages[0].timestamp_ms == 1_700_000_000_123
    assert dict(messages[0].headers)["HALF_OFFSET"] == b"1:7"
    assert "FAST" not in dict(messages[0].headers)


def test_each_queue_has_an_op_that_says_what_is_delivered() -> None:
    _, ops = written(stored_half(1, 7), stored_half(0, 3), stored_half(1, 2))
    assert [[element.offset for element in op.elements] for op in ops] == [[7, 2], [3]]
    for op in ops:
        assert (op.state.value, op.group, op.delivered) == ("COMMIT_MESSAGE", "orders", True)
        assert (op.from_check, op.actor, op.remark) == (False, None, None)


@pytest.mark.parametrize(
    ("op_max_bytes", "sizes"),
    [(1_000_000, [MAX_OP_ELEMENTS, MAX_OP_ELEMENTS, 2]), (30_000, None)],
)
def test_ops_are_as_large_as_may_be(op_max_bytes: int, sizes: list[int] | None) -> None:
    count = 2 * MAX_OP_ELEMENTS + 2
    _, ops = written(
        *(stored_half(0, number) for number in range(count)), op_max_bytes=op_max_bytes
    )
    assert [element.offset for op in ops for element in op.elements] == list(range(count))
    assert sizes in (None, [len(op.elements) for op in ops])
    assert max(len(op.to_value()) for op in ops) <= op_max_bytes


def test_the_first_failure_has_no_pause_and_each_further_one_doubles_it() -> None:
    pause = Pause()
    pauses = []
    for now in range(100, 110):
        pause.fail(now)
        pauses.append(pause.until - now)
    assert pauses == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    pause.succeed()
    pause.fail(200)
    assert pause.until == 200


def test_a_name_counts_for_a_minute() -> None:
    minutes = Minutes()
    assert not minutes.counts("a", 0)
    assert minutes.begin("a", 0)
    assert not minutes.begin("a", 59)
    assert minutes.counts("a", 59) and not minutes.counts("b", 59)
    assert not minutes.counts("a", 60)
    assert minutes.begin("a", 60)


def test_names_without_end_take_no_memory_without_end() -> None:
    minutes = Minutes()
    for number in range(5_000):
        minutes.begin(str(number), 0)
    assert sum(minutes.counts(str(number), 1) for number in range(5_000)) <= 1_000
