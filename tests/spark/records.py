"""Builders of the protocol's records, one of each kind."""

from __future__ import annotations

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
    TransactionStatus,
    check_record,
    discarded_record,
)

BORN_AT = 1_767_323_045_678  # 2026-01-02T03:04:05.678Z


def half(
    transaction_id: str = "id-1",
    group: str = "orders",
    key: bytes | None = b"key",
    body: bytes | None = b"body",
    headers: Headers | None = None,
    real_qid: int | None = None,
    immunity_seconds: int | None = None,
) -> Half:
    own = headers or []
    return Half(
        transaction_id, group, "orders-out", BORN_AT, key, body, own, real_qid, immunity_seconds
    )


def op(
    *ends: tuple[int, str],
    state: TransactionStatus = TransactionStatus.COMMIT_MESSAGE,
    from_check: bool = False,
    remark: str | None = None,
    actor: str | None = None,
) -> Op:
    elements = tuple(Element(i, offset, name) for i, (offset, name) in enumerate(ends))
    return Op(state, "orders", elements, from_check, remark, actor)


def at(message: Half, queue: int = 1, offset: int = 7, stored_at_ms: int = BORN_AT) -> StoredHalf:
    return StoredHalf(queue, offset, stored_at_ms, message, message.to_record("half").headers)


def resolution(
    outcome: Outcome = Outcome.COMMIT,
    source: Source = Source.END,
    queue: int = 1,
    offset: int = 7,
    op_offset: int | None = 3,
    ended_at: int | None = BORN_AT + 200,
) -> Resolution:
    return Resolution(
        transaction_id="id-1",
        queue=queue,
        offset=offset,
        outcome=outcome,
        source=source,
        group="orders",
        topic="orders-out",
        op_offset=op_offset,
        checks=2,
        answered=1,
        born_at=BORN_AT,
        stored_at=BORN_AT + 100,
        ended_at=ended_at,
        decided_at=BORN_AT + 300,
        batch_id=4,
        query_id="query",
    )


def check(names: Names, message: Half, checks: int = 1) -> Record:
    return check_record(at(message), checks, names)


def discarded(names: Names, message: Half, error: str | None = None) -> Record:
    return discarded_record(at(message), 15, DiscardReason.CHECK_MAX, error, names)


def refused(
    reason: QuarantineReason,
    record: Record,
    source: str = "tx.op:1:5",
    element: int | None = None,
) -> Refused:
    return Refused(source, element, reason, "why", record.key, record.value, record.headers)
