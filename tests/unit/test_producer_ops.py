"""Ops are packed: many halves of one queue and state in one record."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver import Message
from resolver.producer.op_pack import Pack, Packer, PackKey
from resolver.producer.op_publisher import OpPublisher
from resolver.producer.reported_state import ReportedState
from resolver.protocol import Half, HalfId, Op, TransactionStatus, decode_op
from resolver.protocol.names import MAX_OP_ELEMENTS
from tests.support.patience import PATIENCE_SECONDS

COMMIT = PackKey(0, TransactionStatus.COMMIT_MESSAGE)
ID = "0f8fad5b-d9cb-469f-a165-70867728950e"


def decoded(pack: Pack) -> Op:
    record = pack.to_record("tx.op")
    assert record.partition == pack.key.queue
    return decode_op(record.value, record.headers)


def filled(ends: list[tuple[PackKey, int, str]], max_bytes: int) -> list[Pack]:
    packer = Packer("orders", max_bytes, 0.01)
    full = [packer.add(key, offset, name, 0.0) for key, offset, name in ends]
    return [pack for pack in full if pack] + packer.take_all()


def test_ends_of_one_key_share_a_record() -> None:
    [pack] = filled([(COMMIT, offset, f"t{offset}") for offset in (5, 3, 9)], 4096)
    op = decoded(pack)
    assert [(element.offset, element.transaction_id) for element in op.elements] == [
        (5, "t5"),
        (3, "t3"),
        (9, "t9"),
    ]
    assert (op.state, op.group, op.from_check) == (COMMIT.state, "orders", False)


def test_ends_that_differ_in_anything_do_not_share_one() -> None:
    keys = [
        COMMIT,
        COMMIT._replace(queue=1),
        COMMIT._replace(state=TransactionStatus.ROLLBACK_MESSAGE),
        COMMIT._replace(from_check=True),
        COMMIT._replace(remark="why"),
        COMMIT._replace(actor="ann"),
    ]
    packs = filled([(key, 1, ID) for key in keys] * 2, 4096)
    assert [pack.key for pack in packs] == keys
    assert [len(pack) for pack in packs] == [2] * len(keys)
    assert {(op.remark, op.actor, op.from_check) for op in map(decoded, packs)} == {
        (None, None, False),
        (None, None, True),
        ("why", None, False),
        (None, "ann", False),
    }


@given(
    st.lists(
        st.tuples(
            st.sampled_from([COMMIT, COMMIT._replace(remark='"quoted"\n')]),
            st.integers(0, 2**63 - 1),
            st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=128),
        ),
        max_size=60,
    ),
    st.integers(150, 4096),
)
def test_no_end_is_lost_and_no_record_is_too_large(
    ends: list[tuple[PackKey, int, str]], max_bytes: int
) -> None:
    sent: dict[PackKey, list[tuple[int, str]]] = {}
    for pack in filled(ends, max_bytes):
        op = decoded(pack)
        assert len(pack) == 1 or len(pack.to_record("t").value or b"") <= max_bytes
        assert not op.malformed
        sent.setdefault(pack.key, []).extend((e.offset, e.transaction_id) for e in op.elements)
    wanted: dict[PackKey, list[tuple[int, str]]] = {}
    for key, offset, name in ends:
        wanted.setdefault(key, []).append((offset, name))
    assert sent == wanted


def test_a_record_is_filled_before_the_next_begins() -> None:
    packs = filled([(COMMIT, 17, ID)] * 500, 4096)
    sizes = [len(pack.to_record("t").value or b"") for pack in packs]
    assert all(4096 - 50 < size <= 4096 for size in sizes[:-1])


def test_a_record_has_no_more_elements_than_the_protocol_allows() -> None:
    packs = filled([(COMMIT, 1, "t")] * (MAX_OP_ELEMENTS + 1), 1_000_000)
    assert [len(pack) for pack in packs] == [MAX_OP_ELEMENTS, 1]


class SlowToEnd(OpPublisher):
    """Its thread has sent all that there is, and still lives."""

    def __init__(self) -> None:
        self.finished, self.may_end = threading.Event(), threading.Event()
        connection: Any = None  # nothing is sent
        super().__init__(connection, "orders", "tx.op")

    def _run(self) -> None:
        super()._run()
        self.finished.set()
        self.may_end.wait(PATIENCE_SECONDS)


def test_an_end_that_comes_after_the_last_was_sent_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sender = SlowToEnd()
    sender.close(0)
    assert sender.finished.wait(PATIENCE_SECONDS)
    half_id = HalfId(0, 17)
    message = Message.of_half(Half(ID, "orders", "orders.placed", 1, None, b"", []), half_id)
    sender.add(message, half_id, ReportedState(TransactionStatus.COMMIT_MESSAGE))
    sender.may_end.set()
    assert "came after the close; it is not sent" in caplog.text


def test_a_pack_is_due_when_its_first_end_has_lingered() -> None:
    packer = Packer("orders", 4096, 0.01)
    assert packer.next_due_at() is None
    packer.add(COMMIT, 1, ID, 100.0)
    packer.add(COMMIT._replace(queue=1), 1, ID, 100.005)
    packer.add(COMMIT, 2, ID, 100.009)
    assert packer.next_due_at() == 100.01
    assert packer.take_due(100.0) == []
    assert [len(pack) for pack in packer.take_due(100.01)] == [2]
    assert packer.next_due_at() == 100.005 + 0.01
